// Package spec reads a policy, its budget and its breaker from a file, in JSON
// or YAML. The file that cmd/backoffsim simulates is the same file that the
// program loads.
//
//	{
//	  "name": "fetch",
//	  "maxAttempts": 4,
//	  "maxElapsed": "30s",
//	  "attemptTimeout": "2s",
//	  "schedule": {"exponential": {"initial": "100ms", "max": "10s"}},
//	  "jitter": "full",
//	  "budget": {"retry": {"ratio": 0.1}},
//	  "breaker": {"consecutiveFailures": 10}
//	}
//
// A [backoff.Policy] holds functions, and objects that have a state. Neither
// can be read back from a file. So the data is a type of its own, [Spec],
// which makes a policy and a [guard.Service]. Code stays in the program: it sets
// Classify, Observer and Shared on what a Spec has made.
//
// [Parse] reads JSON. A [Spec] may also be a member of the configuration of a
// program, which YAML libraries, encoding/json, and readers of environment
// variables and flags decode.
//
// The form of the file is described at [Parse].
//
// This is a package of its own because encoding/json would add 12 KiB to every
// program that has a policy, also to those that read no files.
package spec

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/asjson"
)

// A Spec is a policy as data, with its budget and its breaker. It comes from
// [Parse] or from a decoder. The Spec of the text {} makes the zero Policy,
// without a budget and without a breaker.
//
// The zero Spec is one that nothing was decoded into. Its methods return an
// error, so that a policy that a decoder did not find, or could not read, is
// not taken for the default. If a member of your own type may be left out, set
// it to the Spec of {} before you decode into it.
//
// Its methods do not change it, and it is safe for concurrent use. To vary a
// policy, change the policy that the Spec has made.
type Spec struct{ form *form }

// form is the JSON object of a policy.
type form struct {
	Name                   string      `json:"name,omitzero"`
	MaxAttempts            int         `json:"maxAttempts,omitzero"`
	MaxElapsed             duration    `json:"maxElapsed,omitzero"`
	AttemptTimeout         duration    `json:"attemptTimeout,omitzero"`
	AttemptTimeoutSchedule *schedule   `json:"attemptTimeoutSchedule,omitzero"`
	Schedule               *schedule   `json:"schedule,omitzero"`
	ByClass                *byClass    `json:"byClass,omitzero"`
	Jitter                 *jitter     `json:"jitter,omitzero"`
	MaxDelay               duration    `json:"maxDelay,omitzero"`
	MaxRetryAfter          duration    `json:"maxRetryAfter,omitzero"`
	Idempotency            idempotency `json:"idempotency,omitzero"`
	Budget                 *budget     `json:"budget,omitzero"`
	ShortenLastWait        bool        `json:"shortenLastWait,omitzero"`
	Breaker                *breaker    `json:"breaker,omitzero"`
	Version                version     `json:"version,omitzero"`
	SchemaURL              string      `json:"$schema,omitzero"`
}

// Parse reads a Spec. The text must hold one JSON object and nothing else.
//
// # The form
//
// Every member may be left out. It then has the default of the field of that
// name, as it has if it is 0, or "0s" for a duration. A member means what the
// field of the same name, with a capital letter, means in [backoff.Policy],
// [backoff.Breaker] and so on.
//
//   - A duration is a string such as "1.5s", "100ms" or "1m30s".
//   - -1 means no limit, for a number and for a duration. All other negative
//     numbers are refused. So is -1 where there must be a limit, as by
//     Validate.
//   - A schedule (schedule, also in byClass, attemptTimeoutSchedule, a
//     breaker's openFor) is a duration, which makes a constant schedule, or an
//     object with one of linear {initial, step, max}, exponential {initial, max,
//     multiplier}, sequence [durations], truncated {schedule, max}.
//   - byClass has a member for each class of failures that has a schedule, a
//     limit of attempts or a jitter of its own: unknown, notSent, retryable,
//     throttled, each {schedule, maxAttempts, jitter}.
//   - A jitter (jitter, also in byClass and in a breaker) is "none", "full" or
//     "equal", or an object with one of decorrelated {base, max}, uniform {low,
//     high}, added (a duration), slotted (a duration).
//   - idempotency is "idempotent", "nonIdempotent" or "keyed".
//   - A budget is the name of one of [presets.Budgets], or an object with one
//     of retry {ratio, window, floor}, pacer {ratio, window, floor, maxWait},
//     throttle {k, window, pad, maxReject}, rate {limit, burst, tokens,
//     retriesOnly}, concurrency {max}, adaptive {}, grpcThrottling {maxTokens,
//     tokenRatio}, all [budgets]. Rates are attempts per second. The limit of a rate must be
//     given. Its burst is by default what one attempt takes.
//   - A policy also has name, maxAttempts, maxElapsed, attemptTimeout,
//     maxDelay, maxRetryAfter and shortenLastWait. At most one of attemptTimeout
//     and attemptTimeoutSchedule may be set.
//   - A breaker has failureRate, minCalls, window, windowCalls,
//     consecutiveFailures, consecutiveSpan, slowCall, slowRate, openFor,
//     jitter, maxRetryAfter, maxProbes, probeSuccesses, probeTimeout, rampUp
//     and minAttemptTime. Its Name is the name of the policy.
//
// Everything else is refused: a member that is not listed here, a member that
// is there twice, null, a wrong type, a value out of its range. The error is
// one line with the path of the member, and its value if the member is known:
//
//	backoff: spec: schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1
//
// If several values can be read and are out of their range, it has a line for
// each.
//
// # Versions and editors
//
// A policy may say by version which version of this form it is written in.
// There is one, 1, which is also the default. Any other version is refused.
//
// An editor that knows JSON Schema completes and checks the members of a policy
// whose $schema is the address of schema.json, which is beside this package:
//
//	"$schema": "https://raw.githubusercontent.com/gobackoff/backoff/main/spec/schema.json"
//
// Parse does not read the schema. It also checks what a schema cannot say, such
// as that initial is not beyond max. Neither member is kept in a [Spec].
func Parse(text []byte) (Spec, error) {
	var f form
	if err := read(text, &f); err != nil {
		return Spec{}, cmp.Or(checkVersion(text), err)
	}
	if err := f.check(); err != nil {
		return Spec{}, err
	}
	f.SchemaURL = "" // which is for editors
	return Spec{&f}, nil
}

// errEmpty is the error of a Spec that nothing was decoded into.
var errEmpty = errors.New("backoff: spec: no policy was decoded; write {} for the defaults")

// Policy returns a new policy, with a new budget if the Spec has one. Copies of
// the policy share the budget. A Policy cannot hold a breaker, so Policy
// returns an error if the Spec has one: use [Spec.Service].
func (s Spec) Policy() (backoff.Policy, error) {
	if s.form == nil {
		return backoff.Policy{}, errEmpty
	}
	if s.form.Breaker != nil {
		return backoff.Policy{}, errors.New("backoff: spec: this Spec has a breaker, which a Policy cannot hold: use Service")
	}
	return s.form.policy(), nil
}

// Service returns what a program makes its calls with: a new [guard.Service] and a
// new policy. The Service has a breaker if the Spec has one, and nothing else; the
// budget, if the Spec has one, is that of the policy. A program may set what is
// code, and what it wants besides, before the first call:
//
//	service, policy, err := s.Service()
//	...
//	service.FailFast, policy.Observer = true, observe
//	err = service.Do(ctx, policy, fetch)
//
// The New of a [guard.Services] can call it for a Service of each key. Then the
// budget goes from the policy to the Service, of which there is one per key.
func (s Spec) Service() (*guard.Service, backoff.Policy, error) {
	if s.form == nil {
		return nil, backoff.Policy{}, errEmpty
	}
	breaker := s.form.Breaker.build(s.form.Name)
	service := &guard.Service{Name: s.form.Name, Breaker: breaker, NoBreaker: breaker == nil, NoBudget: true}
	return service, s.form.policy(), nil
}

// policy returns a new policy.
func (f *form) policy() backoff.Policy {
	return backoff.Policy{
		Name:                   f.Name,
		MaxAttempts:            f.MaxAttempts,
		MaxElapsed:             f.MaxElapsed.value(),
		AttemptTimeout:         f.AttemptTimeout.value(),
		AttemptTimeoutSchedule: f.AttemptTimeoutSchedule.build(),
		Schedule:               f.Schedule.build(),
		ByClass:                f.ByClass.build(),
		Jitter:                 f.Jitter.build(),
		MaxDelay:               f.MaxDelay.value(),
		MaxRetryAfter:          f.MaxRetryAfter.value(),
		Idempotency:            f.Idempotency.build(),
		Budget:                 f.Budget.build(),
		ShortenLastWait:        f.ShortenLastWait,
	}
}

// check calls Validate on everything that the form makes: first on its parts, so
// that each problem gets its path.
func (f *form) check() error {
	err := errors.Join(
		f.AttemptTimeoutSchedule.check("attemptTimeoutSchedule"),
		f.Schedule.check("schedule"),
		f.ByClass.check("byClass"),
		f.Jitter.check("jitter"),
		f.Budget.check("budget"),
		f.Breaker.check("breaker"),
	)
	if err != nil {
		return err
	}
	return relocate("", "Policy", f.policy().Validate())
}

// UnmarshalJSON is [Parse] for encoding/json. It serves programs whose own
// files contain policies. No decoder says where in the file a policy is, so the
// paths in errors begin at the Spec, and the name of the policy stands before
// them if it has one. A program that gives its policies no names decodes into a
// map of json.RawMessage, or of any, and adds the key to the error of each.
func (s *Spec) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err == nil {
		*s = parsed
		return nil
	}
	var policy struct{ Name string }
	_ = json.Unmarshal(text, &policy)
	if policy.Name == "" {
		return err
	}
	const prefix = "backoff: spec: "
	return errors.New(strings.ReplaceAll(err.Error(), prefix, prefix+strconv.Quote(shorten(policy.Name))+": "))
}

// UnmarshalText is [Parse] for [flag.TextVar], for libraries that read
// environment variables, and for other decoders of strings.
func (s *Spec) UnmarshalText(text []byte) error { return s.UnmarshalJSON(text) }

// UnmarshalYAML is [Parse] for YAML. It serves yaml.v2, yaml.v3 and
// github.com/goccy/go-yaml. The value may also be a string that holds the JSON
// of a policy. The libraries refuse a member that is there twice, except that
// yaml.v2 does so only in its strict mode. To that end yaml.v3 compares each
// member of an object with all others, before it asks this package: limit the
// size of a stranger's file, or decode it into a yaml.Node and count them.
func (s *Spec) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	if text, ok := value.(string); ok && strings.HasPrefix(strings.TrimSpace(text), "{") {
		return s.UnmarshalJSON([]byte(text))
	}
	text, err := asjson.Text(value)
	if err != nil {
		return problem("", err.Error())
	}
	return s.UnmarshalJSON(text)
}

// MarshalJSON returns the shortest text from which [Parse] reads the same Spec.
func (s Spec) MarshalJSON() ([]byte, error) {
	if s.form == nil {
		return nil, errEmpty
	}
	return json.Marshal(s.form)
}

// MarshalText is MarshalJSON for [flag.TextVar] and for other encoders of
// strings. YAML libraries write this string, which UnmarshalYAML reads.
func (s Spec) MarshalText() ([]byte, error) { return s.MarshalJSON() }
