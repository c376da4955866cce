// Package spec reads a policy, its budget and its breaker from a JSON file. The
// file that cmd/backoffsim simulates is the same file that the service loads.
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
// can be read back from a file. So the data is a type of its own, [Spec], which
// makes policies, budgets and breakers. What is code stays in the service: it
// sets Classify, Observer and Shared on what a Spec has made.
//
// # The form
//
// Every member may be left out. It then has the default of the field of that
// name, and so it has if it is 0. A member means what the field of the same
// name, with a capital letter, means in [backoff.Policy], [backoff.Breaker] and
// so on.
//
//   - A duration is a string such as "1.5s", "100ms" or "1m30s".
//   - -1 means no limit, for a number and for a duration. It is the only number
//     below 0. Where no limit is impossible -1 is refused, as Validate refuses
//     it.
//   - A schedule (schedule, also in byClass, attemptTimeoutSchedule, a
//     breaker's openFor, an adaptive rate's recovery) is a duration, which makes
//     a constant schedule, or an object with one of linear {initial, step, max},
//     exponential {initial, max, multiplier}, sequence [durations], truncated
//     {schedule, max}.
//   - byClass has a member for each class of failures that has a schedule or a
//     limit of attempts of its own: unknown, notSent, retryable, throttled, each
//     {schedule, maxAttempts}.
//   - A jitter is "none", "full" or "equal", or an object with one of
//     decorrelated {base, max}, uniform {low, high}, added (a duration),
//     slotted (a duration).
//   - idempotency is "idempotent", "nonIdempotent", "keyed" or "alwaysRetry".
//   - A budget is the name of one of [presets.Budgets], or an object with one
//     of retry {ratio, window, floor}, pacer {ratio, window, floor, maxWait},
//     throttle {k, window, pad, maxReject}, rate {limit, burst, tokens,
//     retriesOnly}, adaptiveRate {max, min, burst, decrease, steps, recovery},
//     concurrency {max}, sleeping {max}, grpcThrottling {maxTokens,
//     tokenRatio}, all [budgets]. Rates are attempts per second. The limit of a
//     rate must be given. Its burst is by default what one attempt takes.
//   - A policy also has name, maxAttempts, maxElapsed, attemptTimeout,
//     maxDelay, maxRetryAfter, waitOpen, shortenLastWait and resetAfter. At
//     most one of attemptTimeout and attemptTimeoutSchedule may be set.
//   - A breaker has failureRate, minCalls, window, windowCalls,
//     consecutiveFailures, consecutiveSpan, slowCall, slowRate, openFor,
//     jitter, maxRetryAfter, maxProbes, probeSuccesses, probeTimeout, rampUp
//     and minAttemptTime. Its Name is the name of the policy.
//
// Everything else is refused: a member that is not listed here, a member that
// is there twice, null, a wrong type, a value out of its range. The error is
// one line with the path of the member and its value, such as
//
//	backoff: spec: schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1
//
// If a member had another name in an earlier version, the error names the new
// one.
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
//
// This is a package of its own because encoding/json would add 12 KiB to every
// program that has a policy, also to those that read no files.
package spec

import (
	"cmp"
	"encoding/json"

	"github.com/gobackoff/backoff"
)

// A Spec is a policy as data, with its budget and its breaker. A Spec is always
// valid, since it comes from [Parse], or from encoding/json as part of
// something larger. The zero Spec makes the zero Policy, without a budget, and
// no breaker.
//
// Its methods do not change it, and it is safe for concurrent use. To vary a
// policy, change the policy that the Spec has made.
type Spec struct{ form form }

// form is the JSON object of a policy.
type form struct {
	Name                   string      `json:"name,omitzero"`
	MaxAttempts            int         `json:"maxAttempts,omitzero"`
	MaxElapsed             duration    `json:"maxElapsed,omitzero"`
	AttemptTimeout         timeout     `json:"attemptTimeout,omitzero"`
	AttemptTimeoutSchedule *schedule   `json:"attemptTimeoutSchedule,omitzero"`
	Schedule               *schedule   `json:"schedule,omitzero"`
	ByClass                *byClass    `json:"byClass,omitzero"`
	Jitter                 *jitter     `json:"jitter,omitzero"`
	MaxDelay               duration    `json:"maxDelay,omitzero"`
	MaxRetryAfter          duration    `json:"maxRetryAfter,omitzero"`
	Idempotency            idempotency `json:"idempotency,omitzero"`
	Budget                 *budget     `json:"budget,omitzero"`
	WaitOpen               bool        `json:"waitOpen,omitzero"`
	ShortenLastWait        bool        `json:"shortenLastWait,omitzero"`
	ResetAfter             duration    `json:"resetAfter,omitzero"`
	Breaker                *breaker    `json:"breaker,omitzero"`
	Version                version     `json:"version,omitzero"`
	SchemaURL              schemaURL   `json:"$schema,omitzero"`
}

// Parse reads a Spec. The text must hold one JSON object and nothing else.
func Parse(text []byte) (Spec, error) {
	var s Spec
	if err := read(text, &s.form); err != nil {
		return Spec{}, cmp.Or(checkVersion(text), err)
	}
	if err := s.form.check(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// UnmarshalJSON is [Parse] for encoding/json. It serves programs whose own
// files contain policies. The paths in its errors begin at the Spec.
func (s *Spec) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err == nil {
		*s = parsed
	}
	return err
}

// MarshalJSON returns the shortest text from which [Parse] reads the same Spec.
func (s Spec) MarshalJSON() ([]byte, error) { return json.Marshal(s.form) }

// Policy returns a new policy, with a new budget if the Spec has one. Copies of
// the policy share the budget.
func (s Spec) Policy() backoff.Policy {
	f := &s.form
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
		WaitOpen:               f.WaitOpen,
		ShortenLastWait:        f.ShortenLastWait,
		ResetAfter:             f.ResetAfter.value(),
	}
}

// Budget returns a new budget that has not been used; nil if the Spec has none.
// It is for programs that keep a budget per key, as [backoff.Budgets] does. The
// policy of [Spec.Policy] has a budget of its own.
func (s Spec) Budget() backoff.Budget { return s.form.Budget.build() }

// Breaker returns a new breaker; nil if the Spec has none.
func (s Spec) Breaker() *backoff.Breaker { return s.form.Breaker.build(s.form.Name) }

// Stack returns what a service puts around its calls: a new breaker around a
// new policy, or the policy alone if the Spec has no breaker.
func (s Spec) Stack() backoff.Doer {
	policy := s.Policy()
	if breaker := s.Breaker(); breaker != nil {
		return backoff.Stack(breaker, &policy)
	}
	return &policy
}

// check calls Validate on everything that the form makes.
func (f *form) check() error {
	if err := f.AttemptTimeoutSchedule.check("attemptTimeoutSchedule"); err != nil {
		return err
	}
	if err := f.Schedule.check("schedule"); err != nil {
		return err
	}
	if err := f.ByClass.check("byClass"); err != nil {
		return err
	}
	if err := f.Jitter.check("jitter"); err != nil {
		return err
	}
	if err := f.Budget.check("budget"); err != nil {
		return err
	}
	if err := f.Breaker.check("breaker"); err != nil {
		return err
	}
	policy := Spec{*f}.Policy()
	return relocate("", "Policy", policy.Validate())
}
