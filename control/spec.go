package control

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/spec"
)

// A change is what a spec says about a policy.
type change struct {
	policy  backoff.Policy
	members map[string]json.RawMessage // that are there
}

// settings copies the setting of each member of a spec.
var settings = map[string]func(to, from *backoff.Policy){
	"maxAttempts":            func(to, from *backoff.Policy) { to.MaxAttempts = from.MaxAttempts },
	"maxElapsed":             func(to, from *backoff.Policy) { to.MaxElapsed = from.MaxElapsed },
	"attemptTimeout":         setAttemptTimeouts,
	"attemptTimeoutSchedule": setAttemptTimeouts,
	"schedule":               func(to, from *backoff.Policy) { to.Schedule = from.Schedule },
	"byClass":                func(to, from *backoff.Policy) { to.ByClass = from.ByClass },
	"jitter":                 func(to, from *backoff.Policy) { to.Jitter = from.Jitter },
	"maxDelay":               func(to, from *backoff.Policy) { to.MaxDelay = from.MaxDelay },
	"maxRetryAfter":          func(to, from *backoff.Policy) { to.MaxRetryAfter = from.MaxRetryAfter },
	"idempotency":            func(to, from *backoff.Policy) { to.Idempotency = from.Idempotency },
	"budget":                 func(to, from *backoff.Policy) { to.Budget = from.Budget },
	"shortenLastWait":        func(to, from *backoff.Policy) { to.ShortenLastWait = from.ShortenLastWait },
}

// setAttemptTimeouts copies both settings, of which at most one is set.
func setAttemptTimeouts(to, from *backoff.Policy) {
	to.AttemptTimeout, to.AttemptTimeoutSchedule = from.AttemptTimeout, from.AttemptTimeoutSchedule
}

// readChange reads a spec for a policy of a name.
func readChange(name, text string) (*change, error) {
	parsed, err := spec.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	service, policy, _ := parsed.Service() // only an empty Spec has none
	c := &change{policy: policy}
	_ = json.Unmarshal([]byte(text), &c.members) // it is an object, as Parse has found
	switch {
	case c.policy.Name != "" && c.policy.Name != name:
		return nil, problem("to", "has the name "+quote(c.policy.Name)+", want "+quote(name)+" or none: a policy keeps its name")
	case !service.NoBreaker:
		return nil, problem("to", "has a breaker, want none: it is not part of the policy")
	}
	return c, nil
}

// onto returns the policy with the settings that the spec has.
func (c *change) onto(p backoff.Policy) backoff.Policy {
	for member := range c.members {
		if set := settings[member]; set != nil {
			set(&p, &c.policy)
		}
	}
	return p
}

// loosens returns an error if the policy would repeat what it does not as the
// program has it. Under an Idempotency it repeats only what that allows.
func (c *change) loosens(base backoff.Policy) error {
	next := c.onto(base)
	if c.members["idempotency"] != nil && base.Idempotency != backoff.Idempotent &&
		next.Idempotency != backoff.NonIdempotent && next.Idempotency != base.Idempotency {
		return problem("to", `lets the policy repeat what the program does not: want the idempotency "nonIdempotent", or none`)
	}
	for class := backoff.ClassUnknown; class.Retryable() && next.Idempotency == nil; class++ {
		if oneAttempt(base, class) && !oneAttempt(next, class) {
			return problem("to", "allows retries of failures that are "+strconv.Quote(class.String())+", for which the program allows one attempt")
		}
	}
	return nil
}

// oneAttempt reports whether a policy never repeats after a failure of a class.
func oneAttempt(p backoff.Policy, class backoff.Class) bool {
	return cmp.Or(p.ByClass[class].MaxAttempts, p.MaxAttempts) == 1
}
