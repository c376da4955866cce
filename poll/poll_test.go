package poll_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/poll"
)

var (
	errDown   = errors.New("down")
	errFailed = errors.New("job failed")
	errGone   = &net.DNSError{Err: "no such host", Name: "example.invalid", IsNotFound: true}
)

// A check takes some time, and returns done and err.
type check struct {
	takes time.Duration
	done  bool
	err   error
}

// A record tells when the checks of a poll were made, and how it ended.
type record struct {
	at    []time.Duration
	ended time.Duration
	err   error
}

// recorded polls in virtual time. The checks come in turn, the last one again
// and again. They end with their context.
func recorded(t *testing.T, p backoff.Policy, checks ...check) record {
	return recordedUnder(t, 0, p, checks...)
}

// recordedUnder is recorded with a deadline, if that is above 0.
func recordedUnder(t *testing.T, deadline time.Duration, p backoff.Policy, checks ...check) (r record) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { r = recordedHere(t, deadline, p, checks...) })
	return r
}

// recordedHere is recordedUnder for a test in a bubble: an error that matches
// the error of its context cannot leave one.
func recordedHere(t *testing.T, deadline time.Duration, p backoff.Policy, checks ...check) (r record) {
	ctx, began := t.Context(), time.Now()
	if deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	r.err = poll.Until(ctx, p, func(ctx context.Context) (bool, error) {
		r.at = append(r.at, time.Since(began))
		l := checks[min(len(r.at), len(checks))-1]
		if l.takes == 0 {
			return l.done, l.err
		}
		select {
		case <-time.After(l.takes):
			return l.done, l.err
		case <-ctx.Done():
			return false, ctx.Err()
		}
	})
	r.ended = time.Since(began)
	return r
}

func seconds(all ...float64) []time.Duration {
	times := make([]time.Duration, len(all))
	for i, s := range all {
		times[i] = time.Duration(s * float64(time.Second))
	}
	return times
}

// every is a policy that checks every 10 s, for so long.
func every(elapsed time.Duration) backoff.Policy {
	return backoff.Policy{
		Name:       "job",
		Schedule:   backoff.Constant(10 * time.Second),
		Jitter:     backoff.NoJitter,
		MaxElapsed: elapsed,
	}
}

func gaveUp(t *testing.T, err error) *backoff.Error {
	t.Helper()
	var gave *backoff.Error
	require.ErrorAs(t, err, &gave)
	return gave
}

var (
	notYet = check{}
	done   = check{done: true}
	down   = check{err: errDown}
)

func TestTheLastCheckIsExactlyAtMaxElapsed(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		p := every(25 * time.Second)
		p.AttemptTimeout = timeout
		r := recorded(t, p, notYet)
		require.Equal(t, seconds(0, 10, 20, 25), r.at)
		require.Equal(t, 25*time.Second, r.ended)
		require.EqualError(t, r.err, "backoff: job: gave up after 4 attempts: out of time (MaxElapsed): not yet")
		gave := gaveUp(t, r.err)
		require.Equal(t, backoff.ReasonElapsed, gave.Reason)
		require.Equal(t, 4, gave.Attempts)
		require.Equal(t, poll.ErrNotYet, gave.Last)
		require.ErrorIs(t, r.err, backoff.ErrExhausted)

		require.NoError(t, recorded(t, p, notYet, notYet, notYet, done).err, "the last check counts")
	}
}

func TestThereIsNoCheckAtTheDeadlineOfTheContext(t *testing.T) {
	for _, deadline := range []time.Duration{30 * time.Second, 25 * time.Second} {
		r := recordedUnder(t, deadline, every(0), notYet)
		require.Equal(t, seconds(0, 10, 20), r.at)
		require.Equal(t, 20*time.Second, r.ended)
		require.ErrorIs(t, r.err, context.DeadlineExceeded)
		require.ErrorIs(t, r.err, poll.ErrNotYet)
		require.Equal(t, backoff.ReasonDeadline, gaveUp(t, r.err).Reason)
	}
	r := recordedUnder(t, 25*time.Second, every(25*time.Second), notYet)
	require.Equal(t, seconds(0, 10, 20), r.at)
	r = recordedUnder(t, 25*time.Second, every(24*time.Second), notYet)
	require.Equal(t, seconds(0, 10, 20, 24), r.at)
	r = recordedUnder(t, time.Minute, every(0), check{takes: 45 * time.Second}, notYet)
	require.Equal(t, seconds(0, 55), r.at)

	// A hint of nothing makes no haste. Else each wait would be a part of the time left, and
	// the checks would be ever more.
	soon := check{err: backoff.RetryAfter(poll.ErrNotYet, 0)}
	require.Equal(t, seconds(0, 10, 20, 25), recorded(t, every(25*time.Second), soon).at)
	require.Equal(t, seconds(0, 10, 20), recordedUnder(t, 25*time.Second, every(0), soon).at)
}

func TestAPollWithoutAnEndMustBeAskedFor(t *testing.T) {
	var told []backoff.Event
	p := every(0)
	p.Observer = func(_ context.Context, e backoff.Event) { told = append(told, e) }
	err := poll.Until(t.Context(), p, func(context.Context) (bool, error) {
		t.Error("a check was made")
		return true, nil
	})
	require.EqualError(t, err, "backoff: Policy.MaxElapsed is 0 and the context has no deadline, want one of them, or -1 to poll without end")
	require.False(t, backoff.Policy{}.Retryable(err))
	require.Len(t, told, 1)
	require.Equal(t, backoff.ReasonInvalid, told[0].Reason)
	require.Equal(t, err, told[0].Err)

	for _, negative := range []time.Duration{-1, -2, -time.Hour} {
		r := recorded(t, every(negative), append(make([]check, 10_000), done)...)
		require.NoError(t, r.err)
		require.Len(t, r.at, 10_001)
	}
}

func TestAnInvalidPolicyIsRefusedBeforeTheFirstCheck(t *testing.T) {
	for want, p := range map[string]backoff.Policy{
		"Policy.Schedule":               {MaxElapsed: time.Second, Schedule: backoff.Linear{Initial: -1}},
		"Policy.AttemptTimeoutSchedule": {MaxElapsed: time.Second, AttemptTimeoutSchedule: backoff.Linear{Initial: -1}},
		"Policy.ByClass":                {MaxElapsed: time.Second, ByClass: map[backoff.Class]backoff.ClassLimits{backoff.ClassPermanent: {}}},
		"RetryBudget":                   {MaxElapsed: time.Second, Budget: &backoff.RetryBudget{Ratio: -1}},
	} {
		err := poll.Until(t.Context(), p, func(context.Context) (bool, error) {
			t.Error("a check was made")
			return true, nil
		})
		require.ErrorContains(t, err, want)
		require.Equal(t, p.Validate(), err)
	}
}

func TestMaxAttemptsCountsFailedChecksInARow(t *testing.T) {
	four := []check{down, down, down, notYet, down, down, down, down, done}
	r := recorded(t, every(time.Hour), four...)
	require.Equal(t, seconds(0, 10, 20, 30, 40, 50, 60, 70), r.at)
	require.Equal(t, 70*time.Second, r.ended)
	require.EqualError(t, r.err, "backoff: job: gave up after 8 attempts: down")
	gave := gaveUp(t, r.err)
	require.Equal(t, backoff.ReasonAttempts, gave.Reason)
	require.Equal(t, errDown, gave.Last)
	require.ErrorIs(t, r.err, backoff.ErrExhausted)

	r = recorded(t, every(time.Hour), check{err: backoff.RetryAfter(errDown, time.Minute)})
	require.Equal(t, time.Minute, gaveUp(t, r.err).RetryAfter(), "what the server asked for is kept")
	require.Equal(t, backoff.ReasonAttempts, gaveUp(t, r.err).Reason)
	require.False(t, backoff.Policy{}.Retryable(r.err))
}

func TestAClassHasAJitterOfItsOwn(t *testing.T) {
	p := every(time.Hour)
	p.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Jitter: backoff.UniformJitter(0.25, 0.25)}}
	r := recorded(t, p, check{err: backoff.OfClass(io.EOF, backoff.ClassThrottled)}, notYet, done)
	require.Equal(t, seconds(0, 5+1.25, 16.25), r.at)
}

func TestByClassHoldsAfterFailedChecksOnly(t *testing.T) {
	p := every(time.Hour)
	p.ByClass = map[backoff.Class]backoff.ClassLimits{}
	for c := backoff.ClassUnknown; c.Retryable(); c++ {
		p.ByClass[c] = backoff.ClassLimits{Schedule: backoff.Constant(time.Minute), MaxAttempts: 2}
	}
	throttled := check{err: backoff.OfClass(errDown, backoff.ClassThrottled)}
	hinted := check{err: backoff.RetryAfter(poll.ErrNotYet, time.Second)}
	r := recorded(t, p, notYet, notYet, hinted, down, notYet, throttled, notYet, down, down)
	require.Equal(t, seconds(0, 10, 20, 30, 90, 100, 160, 170, 230), r.at)
	require.Equal(t, backoff.ReasonAttempts, gaveUp(t, r.err).Reason)

	p.MaxAttempts, p.ByClass = 2, map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 4}}
	require.NoError(t, recorded(t, p, throttled, throttled, throttled, done).err)
	require.Len(t, recorded(t, p, notYet, throttled).at, 5)
	require.Len(t, recorded(t, p, throttled, throttled, down).at, 3, "the last one counts")
	require.Equal(t, []string{"success 1/2", "retry 1/4 down", "retry 2/4 down slept 10s", "give up 3/2 down (attempts) slept 10s"},
		told(t, p, notYet, throttled, throttled, down))
}

func TestAfterNotYetTheScheduleOfAClassStartsAgain(t *testing.T) {
	p := every(time.Hour)
	p.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Schedule: backoff.Exponential{Initial: 12 * time.Second}}}
	throttled := check{err: backoff.OfClass(errDown, backoff.ClassThrottled)}
	r := recorded(t, p, notYet, notYet, notYet, throttled, throttled, notYet, down, throttled, done)
	require.Equal(t, seconds(0, 10, 20, 30, 42, 66, 76, 86, 110), r.at)
}

func TestADelayOfNothingDoesNotMakeAPollSpin(t *testing.T) {
	zero := map[backoff.Class]backoff.ClassLimits{backoff.ClassUnknown: {Schedule: backoff.Constant(0)}}
	for name, c := range map[string]struct {
		policy backoff.Policy
		check  check
		want   []time.Duration
	}{
		"a setting never made":    {backoff.Policy{Schedule: backoff.Constant(0)}, notYet, seconds(0, 0.1, 0.2, 0.25)},
		"failed checks":           {backoff.Policy{Schedule: backoff.Constant(0)}, down, seconds(0, 0.1, 0.2, 0.25)},
		"a quick check":           {backoff.Policy{Schedule: backoff.Constant(0)}, check{takes: 40 * time.Millisecond}, seconds(0, 0.1, 0.2, 0.25)},
		"a check that blocks":     {backoff.Policy{Schedule: backoff.Constant(0)}, check{takes: 120 * time.Millisecond}, seconds(0, 0.12, 0.24)},
		"a class":                 {backoff.Policy{Schedule: backoff.Constant(time.Hour), ByClass: zero}, down, seconds(0, 0.1, 0.2, 0.25)},
		"a server, after not yet": {every(0), check{err: backoff.Pushback(poll.ErrNotYet, 0)}, seconds(0, 10, 20, 25)},
		"a server, after errors":  {every(0), check{err: backoff.Pushback(errDown, 0)}, seconds(0, 10, 20, 25)},
		"asked for":               {backoff.Policy{Schedule: backoff.Constant(80 * time.Millisecond)}, notYet, seconds(0, 0.08, 0.16, 0.24, 0.25)},
	} {
		p := c.policy
		p.MaxAttempts, p.Jitter, p.Rand = -1, backoff.NoJitter, func() float64 { return 0 }
		if p.MaxElapsed = 250 * time.Millisecond; p.Name != "" {
			p.MaxElapsed = 25 * time.Second
		}
		require.Equal(t, c.want, recorded(t, p, c.check).at, name)
	}
}

func TestACheckThatAsksForTheNextOneAtOnceGetsItOnce(t *testing.T) {
	for _, err := range []error{errDown, poll.ErrNotYet} {
		r := recorded(t, every(25*time.Second), check{err: backoff.AtOnce(err)})
		require.Equal(t, seconds(0, 0, 10, 20, 25)[:len(r.at)], r.at)
		require.GreaterOrEqual(t, len(r.at), 4)
	}
}

func many(l check, n int) []check {
	all := make([]check, n)
	for i := range all {
		all[i] = l
	}
	return all
}

func TestOnlyWhatIsSaidExplicitlyEndsAPollBeforeItsTime(t *testing.T) {
	inner := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)}
	innerPermanent := backoff.Policy{Classify: func(error) backoff.Class { return backoff.ClassPermanent }}
	fail := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for name, err := range map[string]error{
		"a name that does not exist":                errGone,
		"a cancellation of the check's own":         context.Canceled,
		"what a policy in the check gave up on":     inner.Do(t.Context(), fail(errDown)),
		"the same, wrapped":                         fmt.Errorf("status: %w", inner.Do(t.Context(), fail(errDown))),
		"what a policy inside found permanent":      innerPermanent.Do(t.Context(), fail(errDown)),
		"what another library gave up on":           canceledError{errDown},
		"a poll in the check that ran out":          recorded(t, every(time.Second), notYet).err,
		"a poll in the check that failed too often": recorded(t, every(time.Hour), down).err,
	} {
		t.Run(name, func(t *testing.T) {
			r := recorded(t, every(time.Hour), check{err: err}, notYet, check{err: err}, check{err: err}, check{err: err}, done)
			require.NoError(t, r.err)
			require.Len(t, r.at, 6)

			r = recorded(t, every(time.Hour), check{err: err})
			require.Len(t, r.at, 4)
			require.ErrorIs(t, r.err, err)
		})
	}
	for name, err := range map[string]error{
		"permanent":  backoff.Permanent(errDown),
		"wrapped":    fmt.Errorf("status: %w", backoff.Permanent(errDown)),
		"overloaded": backoff.OfClass(errDown, backoff.ClassOverloaded),
		"pushback":   backoff.Pushback(errDown, -1),
	} {
		t.Run(name, func(t *testing.T) {
			r := recorded(t, every(time.Hour), notYet, check{err: err})
			require.Len(t, r.at, 2)
			require.ErrorIs(t, r.err, err)
		})
	}
	err := backoff.Permanent(backoff.RetryAfter(errDown, 0))
	require.Equal(t, err, recorded(t, every(time.Hour), notYet, check{err: err}).err, "as the check returned it")
}

// canceledError is what the AWS SDK returns: evidence to policies that a loop of
// another library gave up.
type canceledError struct{ error }

func (canceledError) CanceledError() bool { return true }

func TestThePolicysOwnClassifierIsExplicit(t *testing.T) {
	p := every(time.Hour)
	p.Classify = backoff.RetryIf(func(err error) bool { return errors.Is(err, errDown) })
	r := recorded(t, p, notYet, down, notYet, check{err: errFailed})
	require.Len(t, r.at, 4)
	require.ErrorIs(t, r.err, errFailed)
	require.False(t, backoff.Policy{}.Retryable(r.err), "policies around the poll do not retry it")

	inner := backoff.Policy{MaxAttempts: 1}.Do(t.Context(), func(context.Context) error { return errFailed })
	require.Len(t, recorded(t, p, check{err: inner}).at, 1, "it is shown what others gave up on")

	p.AttemptTimeout = time.Second
	require.NoError(t, recorded(t, p, check{takes: time.Minute}, done).err, "it need not know of timeouts")
}

func TestACheckThatIsDoneWithAnErrorEndsThePollWithIt(t *testing.T) {
	for _, err := range []error{errFailed, errGone, backoff.RetryAfter(errFailed, time.Second), poll.ErrNotYet, &backoff.OpenError{}} {
		r := recorded(t, every(time.Hour), notYet, check{done: true, err: err}, notYet)
		require.Len(t, r.at, 2)
		require.Equal(t, 10*time.Second, r.ended)
		require.True(t, r.err == err, "as it is")
	}
}

func TestAResultIsNotLostToTheEndOfTheContext(t *testing.T) {
	for _, want := range []error{nil, errFailed} {
		ctx, cancel := context.WithCancel(t.Context())
		err := poll.Until(ctx, every(time.Hour), func(context.Context) (bool, error) {
			cancel()
			return true, want
		})
		require.Equal(t, want, err)
	}
}

func TestAContextThatHasEndedAllowsNoCheck(t *testing.T) {
	why := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	err := poll.Until(ctx, every(time.Hour), func(context.Context) (bool, error) {
		t.Error("a check was made")
		return true, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	require.EqualError(t, err, "backoff: job: not started: shutting down")
}

func TestTheErrorTellsWhatTheLastCheckSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := check{takes: time.Minute}
		err := recordedHere(t, 25*time.Second, every(0), down, notYet, cut).err
		require.Equal(t, poll.ErrNotYet, gaveUp(t, err).Last)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "backoff: job: gave up after 3 attempts: context deadline exceeded: not yet")

		err = recordedHere(t, 25*time.Second, every(0), notYet, down, cut).err
		require.Equal(t, errDown, gaveUp(t, err).Last)
		require.NotErrorIs(t, err, poll.ErrNotYet)
	})

	ctx, cancel := context.WithCancel(t.Context())
	checks := 0
	p := every(time.Hour)
	p.Schedule = backoff.Constant(0)
	err := poll.Until(ctx, p, func(context.Context) (bool, error) {
		if checks++; checks == 1 {
			return false, errDown
		}
		cancel()
		return false, nil
	})
	require.EqualError(t, err, "backoff: job: gave up after 2 attempts: context canceled: not yet")
	require.NotErrorIs(t, err, errDown, "an answer counts, though ctx has ended")

	r := recorded(t, every(25*time.Second), notYet, notYet, notYet, check{err: errGone})
	require.Equal(t, errGone, gaveUp(t, r.err).Last)
	require.Equal(t, backoff.ReasonElapsed, gaveUp(t, r.err).Reason)
}

func TestAPollIsJitteredByDefaultAndNeverChecksTwiceAtOnce(t *testing.T) {
	p := every(-1)
	p.Jitter = nil
	r := recorded(t, p, append(many(notYet, 2000), done)...)
	var sum time.Duration
	shortest, longest := time.Hour, time.Duration(0)
	for i := 1; i < len(r.at); i++ {
		wait := r.at[i] - r.at[i-1]
		shortest, longest, sum = min(shortest, wait), max(longest, wait), sum+wait
	}
	require.GreaterOrEqual(t, shortest, 5*time.Second)
	require.Less(t, shortest, 5100*time.Millisecond)
	require.LessOrEqual(t, longest, 10*time.Second)
	require.Greater(t, longest, 9900*time.Millisecond)
	require.InDelta(t, 7.5, sum.Seconds()/2000, 0.2)

	p.Jitter, p.Rand = backoff.FullJitter, func() float64 { return 0.1 }
	require.Equal(t, seconds(0, 5.5, 11), recorded(t, p, notYet, notYet, done).at, "nil is FullJitter, and half of a delay is sure")
}

func TestAHintMovesTheNextCheck(t *testing.T) {
	p := every(2 * time.Minute)
	p.Rand = func() float64 { return 0 }
	for _, l := range []check{
		{err: backoff.RetryAfter(errDown, time.Minute)},
		{err: backoff.RetryAfter(poll.ErrNotYet, time.Minute)},
		{err: fmt.Errorf("accepted: %w", backoff.RetryAfter(poll.ErrNotYet, time.Minute))},
	} {
		r := recorded(t, p, notYet, l, done)
		require.NoError(t, r.err)
		require.Equal(t, seconds(0, 10, 70), r.at)
	}
	r := recorded(t, p, notYet, check{err: backoff.RetryAfter(poll.ErrNotYet, time.Second)}, done)
	require.Equal(t, seconds(0, 10, 20), r.at, "the longer one counts")
	r = recorded(t, p, check{err: backoff.RetryAfter(poll.ErrNotYet, 2*time.Minute)}, done)
	require.Equal(t, seconds(0, 120), r.at, "it just fits")
	p.Schedule = backoff.Exponential{Initial: 10 * time.Second}
	r = recorded(t, p, check{err: backoff.Pushback(poll.ErrNotYet, time.Minute)}, notYet, notYet, done)
	require.Equal(t, seconds(0, 60, 70, 90), r.at, "the schedule begins then")
}

func TestAHintBeyondTheLimitEndsThePoll(t *testing.T) {
	hinted := func(err error, d time.Duration) check { return check{err: backoff.RetryAfter(err, d)} }
	for _, err := range []error{errDown, poll.ErrNotYet} {
		r := recorded(t, every(time.Minute), notYet, hinted(err, 51*time.Second))
		require.Equal(t, 10*time.Second, r.ended)
		require.Equal(t, backoff.ReasonElapsed, gaveUp(t, r.err).Reason)
		require.Equal(t, 51*time.Second, gaveUp(t, r.err).RetryAfter())
		require.ErrorIs(t, r.err, err)
	}
}

func TestAttemptTimeoutLimitsEachCheck(t *testing.T) {
	p := every(time.Hour)
	p.AttemptTimeout = 3 * time.Second
	r := recorded(t, p, check{takes: time.Minute})
	require.Equal(t, seconds(0, 13, 26, 39), r.at)
	require.Equal(t, 42*time.Second, r.ended)
	require.ErrorIs(t, r.err, backoff.ErrAttemptTimeout)
	require.ErrorIs(t, r.err, context.DeadlineExceeded)
	require.EqualError(t, r.err, "backoff: job: gave up after 4 attempts: context deadline exceeded (backoff: attempt timeout)")

	p.AttemptTimeout, p.AttemptTimeoutSchedule = 0, backoff.Linear{Initial: time.Second, Step: time.Second}
	slow := check{takes: time.Minute}
	r = recorded(t, p, slow, slow, notYet, slow, done)
	require.Equal(t, seconds(0, 11, 23, 33, 44), r.at, "not yet starts it again")
}

func TestAnErrorThatCameInTimeIsNoTimeout(t *testing.T) {
	p := every(time.Hour)
	p.MaxAttempts, p.AttemptTimeout = 1, time.Second
	synctest.Test(t, func(t *testing.T) {
		err := poll.Until(t.Context(), p, func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, errDown
		})
		require.NotErrorIs(t, err, backoff.ErrAttemptTimeout)
		err = poll.Until(t.Context(), p, func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, backoff.Permanent(ctx.Err())
		})
		require.False(t, errors.Is(err, backoff.ErrExhausted), "a mark counts for more: %v", err)
	})
}

func TestAPanicPassesThrough(t *testing.T) {
	b := &ledger{}
	p := every(time.Hour)
	p.Schedule, p.Budget = backoff.Constant(0), b
	checks := 0
	require.PanicsWithValue(t, "lost", func() {
		_ = poll.Until(t.Context(), p, func(context.Context) (bool, error) {
			if checks++; checks == 1 {
				return false, nil
			}
			panic("lost")
		})
	})
	require.Equal(t, []string{"first 1", "success", "first 1", "failed"}, b.notes)

	ended := make(chan bool)
	go func() {
		defer close(ended)
		_ = poll.Until(context.Background(), p, func(context.Context) (bool, error) {
			runtime.Goexit()
			return true, nil
		})
	}()
	<-ended
	require.Equal(t, []string{"first 1", "failed"}, b.notes[4:])
}

func TestPoliciesAndPollsNestWithoutMultiplying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks := 0
		err := backoff.Policy{}.Do(t.Context(), func(ctx context.Context) error {
			return poll.Until(ctx, every(25*time.Second), func(context.Context) (bool, error) {
				checks++
				return false, nil
			})
		})
		require.Equal(t, 4, checks, "the error of a poll that ran out is permanent")
		require.ErrorIs(t, err, poll.ErrNotYet)

		for _, limit := range []int{4, 1} {
			p := every(time.Hour)
			p.MaxAttempts, checks = limit, 0
			require.Error(t, backoff.Policy{}.Do(t.Context(), func(ctx context.Context) error {
				return fmt.Errorf("deployment: %w", poll.Until(ctx, p, func(context.Context) (bool, error) {
					checks++
					return false, errDown
				}))
			}))
			require.Equal(t, limit, checks, "so is one whose checks failed")
		}
	})
}

func TestAPolicyIsSharedByPollsThatRunAtOnce(t *testing.T) {
	p := every(time.Hour)
	p.Schedule, p.Budget = backoff.Constant(time.Millisecond), &backoff.RetryBudget{}
	var polls sync.WaitGroup
	for range 8 {
		polls.Go(func() {
			checks := 0
			require.NoError(t, poll.Until(t.Context(), p, func(context.Context) (bool, error) {
				checks++
				return checks == 20, nil
			}))
		})
	}
	polls.Wait()
}

// Without waits, for whose timers there is a pool.
func TestACheckThatSaysNotYetAllocatesNothing(t *testing.T) {
	allocs := func(checks int) float64 {
		return testing.AllocsPerRun(5, func() {
			p := backoff.Policy{Schedule: backoff.Constant(1), MaxElapsed: time.Hour, Budget: &backoff.RetryBudget{}}
			n := 0
			_ = poll.Until(context.Background(), p, func(context.Context) (bool, error) {
				n++
				return n == checks, nil
			})
		})
	}
	// A hundred checks more may see the runtime allocate once or twice, as the
	// race detector does. They would show a hundred allocations of their own.
	require.InDelta(t, allocs(2), allocs(102), 10)
}
