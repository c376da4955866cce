package poll_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/poll"
)

// A sight is what a check of the model sees, unless its timeout ends it first.
type sight struct {
	takes time.Duration
	done  bool
	err   error
	hint  time.Duration // 0 if there is none
}

// A plan is a poll.
type plan struct {
	policy   backoff.Policy // without jitter
	deadline time.Duration  // 0 if there is none
	sights   []sight        // in turn, the last one again and again
}

// A story is what a poll did.
type story struct {
	at     []time.Duration // of the checks
	ended  time.Duration
	reason backoff.Reason // success if the last check was done
	last   string         // what the error says of the last check
	value  int            // the number of the last check that answered
}

// follow is the specification: what a poll with such a plan does.
func (p *plan) follow() (s story) {
	var now time.Duration
	wait, failed := 0, 0
	fails := func(reason backoff.Reason) story {
		s.ended, s.reason = now, reason
		return s
	}
	for {
		check := p.sights[min(len(s.at), len(p.sights)-1)]
		s.at = append(s.at, now)
		began := now
		now += check.takes
		timedOut := p.policy.AttemptTimeout > 0 && check.takes > p.policy.AttemptTimeout
		if timedOut {
			now = began + p.policy.AttemptTimeout
		}
		if p.deadline > 0 && now > p.deadline { // it is cut
			now = p.deadline
			if len(s.at) == 1 {
				s.last = context.DeadlineExceeded.Error()
			}
			return fails(backoff.ReasonDeadline)
		}
		switch {
		case timedOut:
			failed++
			s.last = context.DeadlineExceeded.Error() + " (backoff: attempt timeout)"
			check.hint = 0
		case check.done && check.err == nil:
			s.value = len(s.at)
			return fails(0)
		case check.err == nil:
			failed = 0
			s.value = len(s.at)
			s.last = "not yet"
		case check.err == errFailed:
			s.value = len(s.at)
			s.last = check.err.Error()
			return fails(backoff.ReasonPermanent)
		default:
			failed++
			s.last = check.err.Error()
		}
		if limit := p.policy.MaxAttempts; limit > 0 && failed >= limit {
			return fails(backoff.ReasonAttempts)
		}
		if check.hint > time.Minute { // MaxRetryAfter
			return fails(backoff.ReasonRetryAfter)
		}
		wait++
		pause := max(min(p.policy.Schedule.Delay(wait), p.policy.MaxDelay), check.hint)
		if check.hint > 0 && now+check.hint <= p.end() && now+pause >= p.end() { // see backoff.RetryAfter
			pause = check.hint
		}
		if limit := p.policy.MaxElapsed; limit > 0 {
			left := limit - now
			if left <= 0 || check.hint > left {
				return fails(backoff.ReasonElapsed)
			}
			pause = min(pause, left)
		}
		if p.deadline > 0 && now+pause >= p.deadline {
			return fails(backoff.ReasonDeadline)
		}
		now += pause
	}
}

// end is the sooner of the deadline and MaxElapsed.
func (p *plan) end() time.Duration {
	end := time.Duration(math.MaxInt64)
	for _, limit := range []time.Duration{p.deadline, p.policy.MaxElapsed} {
		if limit > 0 {
			end = min(end, limit)
		}
	}
	return end
}

// run makes the poll.
func (p *plan) run(ctx context.Context) (s story) {
	if p.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.deadline)
		defer cancel()
	}
	began := time.Now()
	value, err := poll.Value(ctx, p.policy, func(ctx context.Context) (int, bool, error) {
		s.at = append(s.at, time.Since(began))
		check := p.sights[min(len(s.at), len(p.sights))-1]
		if check.takes > 0 {
			select {
			case <-time.After(check.takes):
			case <-ctx.Done():
				return len(s.at), false, ctx.Err()
			}
		}
		err := check.err
		switch {
		case err == errFailed:
			err = backoff.Permanent(err)
		case check.hint > 0 && err == nil:
			err = backoff.RetryAfter(poll.ErrNotYet, check.hint)
		case check.hint > 0:
			err = backoff.RetryAfter(err, check.hint)
		}
		return len(s.at), check.done, err
	})
	s.ended, s.value = time.Since(began), value
	var gave *backoff.Error
	ran := errors.As(err, &gave)
	switch {
	case ran:
		s.reason, s.last = gave.Reason, gave.Last.Error()
	case err != nil:
		s.reason, s.last = backoff.ReasonPermanent, err.Error()
	default:
		s.last = "" // of no interest
	}
	return s
}

// Times of checks are of even, limits of odd numbers of milliseconds, so that
// nothing happens at the same moment as something else.
func randomPlan(random *rand.Rand) *plan {
	ms := func(most int) time.Duration { return time.Duration(2*random.IntN(most)) * time.Millisecond }
	p := &plan{policy: backoff.Policy{
		Name:          "model",
		Idempotency:   backoff.NonIdempotent, // a check may be repeated
		Jitter:        backoff.NoJitter,
		Rand:          func() float64 { return 0 }, // and so a hint is not spread
		MaxDelay:      ms(20_000) + 2*time.Millisecond,
		MaxElapsed:    -1,
		MaxAttempts:   -1,
		MaxRetryAfter: time.Minute,
	}}
	switch random.IntN(3) {
	case 0:
		p.policy.Schedule = backoff.Constant(ms(5000) + 2*time.Millisecond)
	case 1:
		p.policy.Schedule = backoff.Linear{Initial: ms(1000) + 2*time.Millisecond, Step: ms(1000), Max: -1}
	default:
		p.policy.Schedule = backoff.Exponential{Initial: ms(1000) + 2*time.Millisecond, Max: -1}
	}
	if random.IntN(2) == 0 {
		p.policy.MaxAttempts = 1 + random.IntN(4)
	}
	if random.IntN(3) > 0 {
		p.policy.MaxElapsed = ms(40_000) + time.Millisecond
	}
	if random.IntN(3) == 0 {
		p.policy.AttemptTimeout = ms(4000) + 2*time.Millisecond + 500*time.Microsecond
	}
	if random.IntN(3) == 0 {
		p.deadline = ms(40_000) + 1250*time.Microsecond
	}
	for range 1 + random.IntN(12) {
		p.sights = append(p.sights, randomSight(random, ms))
	}
	if random.IntN(2) == 0 || p.policy.MaxElapsed < 0 && p.deadline == 0 { // let it end
		p.sights = append(p.sights, sight{done: true})
	}
	return p
}

func randomSight(random *rand.Rand, ms func(int) time.Duration) (s sight) {
	if random.IntN(2) == 0 {
		s.takes = ms(3000)
	}
	switch random.IntN(20) {
	case 0:
		s.done = true
		if random.IntN(3) == 0 {
			s.err = errFailed
		}
	case 1:
		s.err = errFailed
	case 2, 3:
		s.err = errGone
	case 4, 5, 6, 7, 8:
		s.err = errDown
	}
	if !s.done && random.IntN(6) == 0 {
		s.hint = ms(10_000) + 2*time.Millisecond
		if random.IntN(8) == 0 {
			s.hint += time.Minute
		}
	}
	return s
}

func TestAPollDoesWhatTheModelDoes(t *testing.T) {
	ends := map[backoff.Reason]int{}
	for seed := range nightly.Size(3000, 300_000) {
		p := randomPlan(rand.New(rand.NewPCG(uint64(seed), 20)))
		want := p.follow()
		if want.reason == 0 {
			want.last = ""
		}
		ends[want.reason]++
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, want, p.run(t.Context()), "seed %d: %+v", seed, p)
		})
	}
	require.Len(t, ends, 6, "%v", ends)
}
