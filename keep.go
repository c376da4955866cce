package backoff

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

const defaultHealthy = 2 * time.Minute

var (
	errEnded   = errors.New("run ended")
	errRefused = errors.New("run refused by the budget")
)

// Keep runs op again and again, for as long as ctx lives: op is a connection, a
// subscription, a watch, that should not end but does. Between two runs it waits as
// after a failure, also when op returned nil, and also before the first run that follows a long
// one: those who were cut off together must not come back together.
//
// The schedule starts again after a run that lasted Healthy, and not before:
// a service that accepts connections and drops them is not well. MaxAttempts and
// MaxElapsed count since the last healthy run; here a MaxAttempts of 0 means no limit.
// A Budget is asked before each run, and a healthy one pays for others. Where it refuses, the loop waits
// once more and asks again: so any number of loops may share an [InFlight] or a rate limit.
//
// It returns when ctx ends, op returns a permanent error, or a limit is reached, with the
// error that Do would return.
func (p *Policy) Keep(ctx context.Context, op func(context.Context) error) error {
	policy := *p
	if policy.MaxAttempts == 0 {
		policy.MaxAttempts = -1
	}
	r := Run{policy: &policy, ctx: ctx, endless: true}
	defer r.abandon()
	for {
		err := r.keep(op)
		if r.over {
			return r.err
		}
		wait, ok := r.fail(err)
		if !ok {
			wait = r.refused
		}
		if r.over || !r.sleep(wait) {
			return r.err
		}
	}
}

// keep makes one run, if the budget lets it.
func (r *Run) keep(op func(context.Context) error) error {
	if !r.rebook() || !r.begin() {
		return cmp.Or(r.last, errRefused)
	}
	began := clock.Now()
	err := op(r.Context())
	if clock.Now().Sub(began) >= r.policy.healthy() {
		r.Progress()
		r.settle(OutcomeSuccess)
	}
	if err == nil {
		err = errEnded
	}
	return err
}

// rebook asks the budget again after it refused.
func (r *Run) rebook() bool {
	if !r.opened || !r.unpaid() {
		return true
	}
	r.now = clock.Now()
	wait, why := r.reserve(Attempt{Number: r.number + 1, Kind: KindRetry, Now: r.now}, 0)
	if why != ReasonSuccess {
		r.giveUp(why, ClassUnknown, hint{}, wait)
		return false
	}
	return r.sleep(wait)
}

// unpaid reports whether an endless loop is yet to get the budget's consent.
func (r *Run) unpaid() bool {
	return r.endless && !r.over && !r.booked && r.policy.Budget != nil
}

func (p *Policy) healthy() time.Duration {
	if p.Healthy == 0 {
		return defaultHealthy
	}
	return p.Healthy
}
