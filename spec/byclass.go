package spec

import (
	"errors"
	"slices"

	"github.com/gobackoff/backoff"
)

// byClass holds what Policy.ByClass holds, with a member for each class that
// may be retried.
type byClass struct {
	Unknown   *classLimits `json:"unknown,omitzero"`
	NotSent   *classLimits `json:"notSent,omitzero"`
	Retryable *classLimits `json:"retryable,omitzero"`
	Throttled *classLimits `json:"throttled,omitzero"`
}

// classLimits holds the fields of [backoff.ClassLimits].
type classLimits struct {
	Schedule    *schedule `json:"schedule,omitzero"`
	MaxAttempts int       `json:"maxAttempts,omitzero"`
	Jitter      *jitter   `json:"jitter,omitzero"`
}

// check returns the problems of schedules and jitters that the library would
// refuse.
func (b *byClass) check(path string) error {
	if b == nil {
		return nil
	}
	var problems []error
	for _, c := range b.entries() {
		at := path + "." + c.name
		problems = append(problems, c.limits.Schedule.check(at+".schedule"), c.limits.Jitter.check(at+".jitter"))
	}
	return errors.Join(problems...)
}

// entry is the member of one class.
type entry struct {
	class  backoff.Class
	name   string
	limits *classLimits
}

// entries returns the members that are there.
func (b *byClass) entries() []entry {
	return slices.DeleteFunc([]entry{
		{backoff.ClassUnknown, "unknown", b.Unknown},
		{backoff.ClassNotSent, "notSent", b.NotSent},
		{backoff.ClassRetryable, "retryable", b.Retryable},
		{backoff.ClassThrottled, "throttled", b.Throttled},
	}, func(e entry) bool { return e.limits == nil })
}

// build returns the map; nil if there is nothing in it.
func (b *byClass) build() map[backoff.Class]backoff.ClassLimits {
	if b == nil || *b == (byClass{}) {
		return nil
	}
	m := make(map[backoff.Class]backoff.ClassLimits)
	for _, c := range b.entries() {
		l := c.limits
		m[c.class] = backoff.ClassLimits{Schedule: l.Schedule.build(), MaxAttempts: l.MaxAttempts, Jitter: l.Jitter.build()}
	}
	return m
}
