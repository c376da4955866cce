// Package spec reads a policy, its budget and its breaker from a JSON file: the same file
// that cmd/backoffsim simulates is the one that the service loads.
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
// A [backoff.Policy] holds functions and objects with a state, which cannot be read back.
// So the data is a type of its own, [Spec], which makes policies, budgets and breakers.
// What is code stays with the service: it sets Classify, Observer and Shared on what a
// Spec has made.
//
// # The form
//
// Every member may be left out, and then is what the field of that name is by default;
// 0 means the same. A member means what the field of [backoff.Policy],
// [backoff.Breaker], and so on, means that is written with a capital.
//
//   - Durations are texts such as "1.5s", "100ms" or "1m30s".
//   - No limit is -1, for a number and for a duration. It is the only number below 0;
//     where there is nothing to be unlimited it is refused, as by Validate.
//   - A schedule (schedule, attemptTimeout, a breaker's openFor, an adaptive rate's
//     recovery) is a duration, which is a constant one, or an object with one of
//     linear {initial, step, max}, exponential {initial, max, multiplier},
//     sequence [durations], truncated {schedule, max}.
//   - A jitter is "none", "full" or "equal", or an object with one of
//     decorrelated {base, max}, uniform {low, high}, added (a duration),
//     slotted (a duration).
//   - idempotency is "idempotent", "nonIdempotent", "keyed", "alwaysRetry" or
//     "neverRetry".
//   - A budget is the name of one of [presets.Budgets], or an object with one of
//     retry {ratio, window, floor}, throttle {k, window, pad, maxReject},
//     rateLimit {limit, burst, tokens, retriesOnly},
//     adaptiveRate {max, min, burst, decrease, steps, recovery},
//     inFlight {max}, pending {max}, grpcThrottling {maxTokens, tokenRatio},
//     all [budgets]. Rates are attempts per second. A rateLimit's limit must be given;
//     its burst of 0 means what an attempt takes.
//   - A policy has besides these: name, maxAttempts, maxElapsed, maxDelay, maxRetryAfter,
//     waitOpen, resetAfter. A breaker has failureRate, minCalls, window, windowCalls, streak,
//     streakSpan, slowCall, slowRate, openFor, jitter, maxHint, probes, successes, lease,
//     ramp, minAttempt; its Name is that of the policy.
//
// What the form does not know is refused: other members, a member that is there twice, null, a
// wrong type, a value out of its range. The error is one line with the path of the member
// and its value, such as
//
//	backoff: spec: schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1
//
// It is a package of its own because encoding/json would add 12 KiB to every program with
// a policy, whether it reads files or not.
package spec

import (
	"encoding/json"

	"github.com/gobackoff/backoff"
)

// A Spec is a policy as data, with its budget and its breaker. It is always valid: it
// comes from [Parse], or from encoding/json as a part of something larger. The zero Spec
// is the zero Policy, without a budget and a breaker.
//
// It is not changed by its methods, and safe for concurrent use. To vary what it makes,
// change that.
type Spec struct{ form form }

// form is the JSON object.
type form struct {
	Name           string      `json:"name,omitzero"`
	MaxAttempts    int         `json:"maxAttempts,omitzero"`
	MaxElapsed     duration    `json:"maxElapsed,omitzero"`
	AttemptTimeout *schedule   `json:"attemptTimeout,omitzero"`
	Schedule       *schedule   `json:"schedule,omitzero"`
	Jitter         *jitter     `json:"jitter,omitzero"`
	MaxDelay       duration    `json:"maxDelay,omitzero"`
	MaxRetryAfter  duration    `json:"maxRetryAfter,omitzero"`
	Idempotency    idempotency `json:"idempotency,omitzero"`
	Budget         *budget     `json:"budget,omitzero"`
	WaitOpen       bool        `json:"waitOpen,omitzero"`
	ResetAfter     duration    `json:"resetAfter,omitzero"`
	Breaker        *breaker    `json:"breaker,omitzero"`
}

// Parse reads a Spec. The text must hold one JSON object and nothing else.
func Parse(text []byte) (Spec, error) {
	var s Spec
	if err := read(text, &s.form); err != nil {
		return Spec{}, err
	}
	if err := s.form.check(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// UnmarshalJSON is [Parse] for encoding/json, for those who have policies within a file
// of their own. Paths in errors begin at the Spec.
func (s *Spec) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err == nil {
		*s = parsed
	}
	return err
}

// MarshalJSON returns the shortest text that Parse reads as the same Spec.
func (s Spec) MarshalJSON() ([]byte, error) { return json.Marshal(s.form) }

// Policy returns a new policy, with a new budget if there is one. Its copies share that.
func (s Spec) Policy() backoff.Policy {
	f := &s.form
	return backoff.Policy{
		Name:                   f.Name,
		MaxAttempts:            f.MaxAttempts,
		MaxElapsed:             f.MaxElapsed.value(),
		AttemptTimeoutSchedule: f.AttemptTimeout.build(),
		Schedule:               f.Schedule.build(),
		Jitter:                 f.Jitter.build(),
		MaxDelay:               f.MaxDelay.value(),
		MaxRetryAfter:          f.MaxRetryAfter.value(),
		Idempotency:            f.Idempotency.build(),
		Budget:                 f.Budget.build(),
		WaitOpen:               f.WaitOpen,
		ResetAfter:             f.ResetAfter.value(),
	}
}

// Budget returns a new budget, as it was never used; nil if there is none. It is for
// those who keep one per key, as [backoff.Budgets] does; [Spec.Policy] has its own.
func (s Spec) Budget() backoff.Budget { return s.form.Budget.build() }

// Breaker returns a new breaker; nil if there is none.
func (s Spec) Breaker() *backoff.Breaker { return s.form.Breaker.build(s.form.Name) }

// Stack returns a new breaker around a new policy, or the policy alone if there is no
// breaker: what a service puts around its calls.
func (s Spec) Stack() backoff.Doer {
	policy := s.Policy()
	if breaker := s.Breaker(); breaker != nil {
		return backoff.Stack(breaker, &policy)
	}
	return &policy
}

// check asks the Validate of all that the form makes.
func (f *form) check() error {
	if err := f.AttemptTimeout.check("attemptTimeout"); err != nil {
		return err
	}
	if err := f.Schedule.check("schedule"); err != nil {
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
	return at("", "Policy", policy.Validate())
}
