package compare

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/gobackoff/backoff"
)

var retries = table{
	name:      "retries",
	libraries: []string{ours, "cenkalti", "avast", "sethvargo", "failsafe-go"},
	rows: []row{
		{"deadline", "10 s are left and the next wait is 60 s: how long the call still takes",
			said(each(loops, timeOfAHopelessWait), map[string]string{"cenkalti": "documented"}), "TestASleepThatCannotEndInAnAttemptIsNotBegun"},
		{"ended-context", "the context has ended before the call: attempts",
			said(each(loops, attemptsUnderAnEndedContext), map[string]string{"cenkalti": "documented"}), "TestNoAttemptIsMadeUnderAnEndedContext"},
		{"cancelled", "the call is cancelled with a cause while it waits: what its error matches, of context.Canceled, the cause and the last failure",
			each(loops, matchesAfterCancellation), "TestAContextThatEndsWhileSleepingIsToldFromADeadline"},
		{"success-kept", "the attempt succeeds just after its context was cancelled: what the caller gets",
			each(loops, resultBesideACancellation), "TestASuccessIsNeverDropped"},
		{"own-canceled", "the operation returns its own context.Canceled, the caller's context has not ended, 4 attempts are allowed: attempts",
			each(loops, attemptsAfterOwn(context.Canceled)), "TestAnOperationsOwnCancellationIsFinal"},
		{"own-timeout", "the same with its own context.DeadlineExceeded",
			each(loops, attemptsAfterOwn(context.DeadlineExceeded)), "TestAnAttemptsTimeoutIsRetriedAndTheCallersIsNot"},
		{"nested", "three loops of 3 attempts around one another: calls at the bottom",
			each(loops, callsOfNestedLoops), "TestNestedPoliciesDoNotMultiply"},
		{"nested-permanent", "an error marked as permanent inside two loops of 3: calls",
			each(marks, callsOfNestedMark), "TestAPermanentErrorIsFinalToEveryLoopAroundIt"},
		{"permanent-joined", "a marked error is joined with the error of a rollback: what the result matches",
			each(marks, matchesOfAJoinedMark), "TestAPermanentErrorComesBackAsItIs"},
		{"mark-and-predicate", "a predicate accepts every error, one error is marked as permanent, 5 attempts are allowed: attempts",
			said(map[string]observation{ours: virtual(oursPredicate), "avast": virtual(avastPredicate)}, map[string]string{"avast": "documented"}),
			"TestAMarkStandsBesideAPredicate"},
		{"long-attempt", "one attempt takes 20 min and fails, under the library's default limits: attempts",
			said(each(loops, attemptsAfterALongOne), map[string]string{"cenkalti": "documented"}), "TestALongAttemptIsRetried"},
		{"max-exceeded", "delays that double up to a maximum of 10 s, and the jitter that the library has by default: the longest of 2000 waits",
			said(each(spreads, longestWait), map[string]string{"cenkalti": "documented"}), "TestNoWaitIsLongerThanTheMaximum"},
		{"spread-at-max", "the same maximum: share of the waits that are exactly 10 s, by default and with a jitter",
			sharesAtMaximum, "TestTheSpreadIsKeptAtTheMaximum"},
		{"max-elapsed", "a limit of 10 s for the whole call, attempts of 1 ms that fail, waits of 1 s: when the last attempt begins",
			said(maxElapsed, map[string]string{"cenkalti": "documented"}), "TestShortenLastWaitEndsTheLastWaitWithMaxElapsed"},
		{"error-size", "the text of the error after 1000 attempts, in bytes",
			with(each(loops, bytesOfTheError), map[string]observation{"avast": or(virtual(bytesIn(avastLoop)), virtual(bytesIn(avastLastLoop)), "LastErrorOnly")}), "TestAnErrorDoesNotGrowWithTheAttempts"},
		{"two-at-once", "one policy value serves two calls, the second 4.5 s after the first, with waits of 1, 2, 4, 8 s: the waits of the first call",
			said(waitsOfSharedValue, map[string]string{"cenkalti": "documented: one BackOff for each call", "sethvargo": "its examples make one for each call"}), "TestTwoCallsUnderOnePolicyKeepTheirOwnWaits"},
	},
}

func timeOfAHopelessWait(t *testing.T, run loop) string {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began := time.Now()
	run(ctx, 3, time.Minute, failing(new(int)))
	return time.Since(began).String()
}

func attemptsUnderAnEndedContext(t *testing.T, run loop) string {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := 0
	run(ctx, 3, time.Second, failing(&calls))
	return fmt.Sprint(calls)
}

func matchesAfterCancellation(t *testing.T, run loop) string {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("shutting down")
	time.AfterFunc(time.Second, func() { cancel(cause) })
	err := run(ctx, 3, time.Minute, failing(new(int)))
	return matched(err, named{"Canceled", context.Canceled}, named{"cause", cause}, named{"failure", errDown})
}

func resultBesideACancellation(t *testing.T, run loop) string {
	ctx, cancel := context.WithCancel(t.Context())
	err := run(ctx, 3, time.Second, func(context.Context) error {
		cancel()
		return nil
	})
	return resultText(err)
}

func attemptsAfterOwn(own error) func(*testing.T, loop) string {
	return func(t *testing.T, run loop) string {
		calls := 0
		run(t.Context(), 4, time.Second, func(context.Context) error {
			calls++
			return own
		})
		return fmt.Sprint(calls)
	}
}

func callsOfNestedLoops(t *testing.T, run loop) string {
	calls := 0
	op := failing(&calls)
	for range 3 {
		inner := op
		op = func(ctx context.Context) error { return run(ctx, 3, time.Second, inner) }
	}
	op(t.Context())
	return fmt.Sprint(calls)
}

// A marker makes an error permanent, and its loop knows it.
type marker struct {
	mark func(error) error
	run  loop
}

// sethvargo's mark says the opposite, and the others have none.
var marks = map[string]marker{
	ours:       {backoff.Permanent, oursLoop},
	"cenkalti": {cenkalti.Permanent, cenkaltiLoop},
	"avast":    {avast.Unrecoverable, avastLoop},
}

func callsOfNestedMark(t *testing.T, m marker) string {
	calls := 0
	m.run(t.Context(), 3, time.Second, func(ctx context.Context) error {
		return m.run(ctx, 3, time.Second, func(context.Context) error {
			calls++
			return m.mark(errDown)
		})
	})
	return fmt.Sprint(calls)
}

func matchesOfAJoinedMark(t *testing.T, m marker) string {
	rollback := errors.New("rollback failed")
	err := m.run(t.Context(), 3, time.Second, func(context.Context) error {
		return errors.Join(m.mark(errDown), rollback)
	})
	return matched(err, named{"failure", errDown}, named{"rollback", rollback})
}

func oursPredicate(t *testing.T) string {
	calls := 0
	p := backoff.Policy{MaxAttempts: 5, Classify: backoff.RetryIf(func(error) bool { return true })}
	p.Do(t.Context(), func(context.Context) error {
		calls++
		return backoff.Permanent(errDown)
	})
	return fmt.Sprint(calls)
}

func avastPredicate(*testing.T) string {
	calls := 0
	avast.New(avast.Attempts(5), avast.RetryIf(func(error) bool { return true })).Do(func() error {
		calls++
		return avast.Unrecoverable(errDown)
	})
	return fmt.Sprint(calls)
}

func attemptsAfterALongOne(t *testing.T, run loop) string {
	calls := 0
	run(t.Context(), 2, time.Second, func(context.Context) error {
		calls++
		time.Sleep(20 * time.Minute)
		return errDown
	})
	return fmt.Sprint(calls)
}

func bytesIn(run loop) observation {
	return func(t *testing.T) string { return bytesOfTheError(t, run) }
}

func bytesOfTheError(t *testing.T, run loop) string {
	err := run(t.Context(), 1000, time.Millisecond, failing(new(int)))
	return fmt.Sprint(len(err.Error()))
}

// The attempts take time: in virtual time, a library that tries again without a
// wait at its limit would do so for ever if they took none.
var maxElapsed = map[string]observation{
	ours: or(virtual(oursLastAttempt(false)), virtual(oursLastAttempt(true)), "ShortenLastWait"),
	"cenkalti": virtual(func(t *testing.T) string {
		return lastAttempt(func(op operation) {
			cenkalti.Retry(t.Context(), valueless(t.Context(), op),
				cenkalti.WithBackOff(cenkalti.NewConstantBackOff(time.Second)), cenkalti.WithMaxElapsedTime(10*time.Second))
		})
	}),
	"sethvargo": virtual(func(t *testing.T) string {
		return lastAttempt(func(op operation) {
			sethvargo.Do(t.Context(), sethvargo.WithMaxDuration(10*time.Second, sethvargo.NewConstant(time.Second)), marked(op))
		})
	}),
	"failsafe-go": virtual(func(t *testing.T) string {
		p := retrypolicy.NewBuilder[any]().WithMaxRetries(-1).WithMaxDuration(10 * time.Second).WithDelay(time.Second).Build()
		return lastAttempt(func(op operation) { failsafe.With(p).Run(func() error { return op(t.Context()) }) })
	}),
}

func oursLastAttempt(shorten bool) observation {
	return func(t *testing.T) string {
		p := backoff.Policy{MaxAttempts: -1, MaxElapsed: 10 * time.Second, Schedule: backoff.Constant(time.Second),
			Jitter: backoff.NoJitter, ShortenLastWait: shorten}
		return lastAttempt(func(op operation) { p.Do(t.Context(), op) })
	}
}

// lastAttempt tells when the last attempt of a call begins.
func lastAttempt(run func(operation)) string {
	began, last := time.Now(), time.Time{}
	run(func(context.Context) error {
		last = time.Now()
		time.Sleep(time.Millisecond)
		return errDown
	})
	return last.Sub(began).String()
}

var waitsOfSharedValue = map[string]observation{
	ours: virtual(func(t *testing.T) string {
		p := backoff.Policy{MaxAttempts: 5, Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter}
		return waitsOfTheFirst(func(op operation) { p.Do(t.Context(), op) })
	}),
	"cenkalti": virtual(func(t *testing.T) string {
		b := &cenkalti.ExponentialBackOff{InitialInterval: time.Second, Multiplier: 2, MaxInterval: time.Minute}
		return waitsOfTheFirst(func(op operation) {
			cenkalti.Retry(t.Context(), valueless(t.Context(), op), cenkalti.WithBackOff(b), cenkalti.WithMaxTries(5))
		})
	}),
	"avast": virtual(func(t *testing.T) string {
		r := avast.New(avast.Attempts(5), avast.Delay(time.Second), avast.DelayType(avast.BackOffDelay))
		return waitsOfTheFirst(func(op operation) { r.Do(func() error { return op(t.Context()) }) })
	}),
	"sethvargo": virtual(func(t *testing.T) string {
		b := sethvargo.WithMaxRetries(8, sethvargo.NewExponential(time.Second))
		return waitsOfTheFirst(func(op operation) { sethvargo.Do(t.Context(), b, marked(op)) })
	}),
	"failsafe-go": virtual(func(t *testing.T) string {
		executor := failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(5).WithBackoff(time.Second, time.Minute).Build())
		return waitsOfTheFirst(func(op operation) { executor.Run(func() error { return op(t.Context()) }) })
	}),
}

// waitsOfTheFirst makes one call, and another one 4.5 s later, and tells the
// waits of the first.
func waitsOfTheFirst(run func(operation)) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(4500 * time.Millisecond)
		run(failing(new(int)))
	}()
	var waits []string
	last := time.Now()
	run(func(context.Context) error {
		if wait := time.Since(last).Round(time.Second); wait > 0 {
			waits = append(waits, fmt.Sprint(wait.Seconds()))
		}
		last = time.Now()
		return errDown
	})
	<-done
	return strings.Join(waits, ", ") + " s"
}

type named struct {
	name string
	err  error
}

// matched names the errors that err matches.
func matched(err error, of ...named) string {
	var all []string
	for _, n := range of {
		if errors.Is(err, n.err) {
			all = append(all, n.name)
		}
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, ", ")
}

func resultText(err error) string {
	if err == nil {
		return "success"
	}
	return fmt.Sprintf("%q", err.Error())
}
