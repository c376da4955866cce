package control

import (
	"encoding/json"

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
	c := new(change)
	_ = json.Unmarshal([]byte(text), &c.members) // it is an object, as Parse has found
	policy, breaker, err := parsed.Parts()
	c.policy = policy
	switch {
	case err != nil:
		return nil, err
	case c.policy.Name != "" && c.policy.Name != name:
		return nil, problem("to", "has the name "+quote(c.policy.Name)+", want "+quote(name)+" or none: a policy keeps its name")
	case breaker != nil:
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
