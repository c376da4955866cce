package spec

import (
	"encoding/json"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/shape"
)

// schedule is a duration, which makes a constant schedule, or an object with
// one member.
type schedule struct {
	Constant    *duration    `json:"-"`
	Linear      *linear      `json:"linear,omitzero"`
	Exponential *exponential `json:"exponential,omitzero"`
	Sequence    []duration   `json:"sequence,omitzero"`
	Truncated   *truncated   `json:"truncated,omitzero"`
}

// linear holds the fields of [backoff.Linear].
type linear struct {
	Initial duration `json:"initial,omitzero"`
	Step    duration `json:"step,omitzero"`
	Max     duration `json:"max,omitzero"`
}

// exponential holds the fields of [backoff.Exponential].
type exponential struct {
	Initial    duration `json:"initial,omitzero"`
	Max        duration `json:"max,omitzero"`
	Multiplier float64  `json:"multiplier,omitzero"`
}

// truncated holds the parameters of shape.Truncated.
type truncated struct {
	Schedule *schedule `json:"schedule,omitzero"`
	Max      duration  `json:"max,omitzero"`
}

// fromToken implements literal.
func (s *schedule) fromToken(token json.Token) bool {
	var d duration
	if !d.fromToken(token) {
		return false
	}
	s.Constant = &d
	return true
}

// wanted implements literal.
func (s *schedule) wanted() string {
	return `a duration of 0 or more, such as "1.5s", or an object with one of ` + names(*s)
}

// MarshalJSON implements json.Marshaler.
func (s schedule) MarshalJSON() ([]byte, error) {
	if s.Constant != nil {
		return json.Marshal(s.Constant)
	}
	type object schedule
	return json.Marshal(object(s))
}

// check returns the problem of a schedule that the library would refuse.
func (s *schedule) check(path string) error {
	if s == nil {
		return nil
	}
	if s.Constant == nil {
		if _, _, err := oneOf(path, *s); err != nil {
			return err
		}
	}
	if s.Truncated != nil {
		if err := s.Truncated.Schedule.check(path + ".truncated.schedule"); err != nil {
			return err
		}
	}
	return relocate(path, "Policy.Schedule", backoff.Policy{Schedule: s.build()}.Validate())
}

// build returns the schedule; nil for nil.
func (s *schedule) build() backoff.Schedule {
	switch {
	case s == nil:
		return nil
	case s.Constant != nil:
		return backoff.Constant(*s.Constant)
	case s.Linear != nil:
		l := s.Linear
		return backoff.Linear{Initial: l.Initial.value(), Step: l.Step.value(), Max: l.Max.value()}
	case s.Exponential != nil:
		e := s.Exponential
		return backoff.Exponential{Initial: e.Initial.value(), Max: e.Max.value(), Multiplier: e.Multiplier}
	case s.Truncated != nil:
		return shape.Truncated(s.Truncated.Schedule.build(), s.Truncated.Max.value())
	}
	delays := make([]time.Duration, len(s.Sequence))
	for i, d := range s.Sequence {
		delays[i] = d.value()
	}
	return backoff.Sequence(delays...)
}
