// Package timeouts reads the attempt timeouts of a policy, for packages that
// keep the time of attempts themselves.
package timeouts

import "github.com/gobackoff/backoff"

// Of returns the time limit of each attempt, by its number, as a schedule: nil
// if p limits no attempt.
func Of(p *backoff.Policy) backoff.Schedule {
	if p.AttemptTimeoutSchedule == nil && p.AttemptTimeout > 0 {
		return backoff.Constant(p.AttemptTimeout)
	}
	return p.AttemptTimeoutSchedule
}

// Remove takes the time limits out of p. What p still knows is that there were
// any: it begins no attempt for which MaxElapsed leaves no time.
func Remove(p *backoff.Policy) {
	p.AttemptTimeoutSchedule = Of(p)
	if p.AttemptTimeout = 0; p.AttemptTimeoutSchedule != nil {
		p.AttemptTimeoutSchedule = backoff.Constant(0) // no limit
	}
}
