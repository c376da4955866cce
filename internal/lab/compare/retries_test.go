package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
			each(loops, attemptsAfterOwn(context.Canceled)), "TestAnOperationsOwnCancellationIsPermanent"},
		{"own-timeout", "the same with its own context.DeadlineExceeded",
			each(loops, attemptsAfterOwn(context.DeadlineExceeded)), "TestAnAttemptsTimeoutIsRetriedAndTheCallersIsNot"},
		{"nested", "three loops of 3 attempts around one another: calls at the bottom",
			each(loops, callsOfNestedLoops), "TestNestedPoliciesDoNotMultiply"},
		{"nested-permanent", "an error marked as permanent inside two loops of 3: calls",
			each(marks, callsOfNestedMark), "TestAPermanentErrorEndsEveryLoopAroundIt"},
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
			with(each(loops, bytesOfTheError), map[string]observation{"avast": also(bytesOfTheError, avastLoop, avastLastLoop, "LastErrorOnly")}), "TestAnErrorDoesNotGrowWithTheAttempts"},
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

var errDown = errors.New("down")

type operation = func(context.Context) error

// A loop runs an operation at most so many times, with the same delay in
// between and no jitter. Everything else is the library's default.
type loop func(ctx context.Context, attempts int, delay time.Duration, op operation) error

var loops = map[string]loop{
	ours:          oursLoop,
	"cenkalti":    cenkaltiLoop,
	"avast":       avastLoop,
	"sethvargo":   sethvargoLoop,
	"failsafe-go": failsafeLoop,
}

func oursLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	p := backoff.Policy{MaxAttempts: attempts, Schedule: backoff.Constant(delay), Jitter: backoff.NoJitter}
	return p.Do(ctx, op)
}

func cenkaltiLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	_, err := cenkalti.Retry(ctx, valueless(ctx, op), cenkalti.WithBackOff(cenkalti.NewConstantBackOff(delay)),
		cenkalti.WithMaxTries(uint(attempts)))
	return err
}

func avastLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	return avast.New(avast.Context(ctx), avast.Attempts(uint(attempts)), avast.Delay(delay),
		avast.DelayType(avast.FixedDelay)).Do(func() error { return op(ctx) })
}

func avastLastLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	return avast.New(avast.Context(ctx), avast.Attempts(uint(attempts)), avast.Delay(delay),
		avast.DelayType(avast.FixedDelay), avast.LastErrorOnly(true)).Do(func() error { return op(ctx) })
}

// In sethvargo's nothing is retried that is not marked, so everything is.
func sethvargoLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	return sethvargo.Do(ctx, sethvargo.WithMaxRetries(uint64(attempts-1), sethvargo.NewConstant(delay)), marked(op))
}

func failsafeLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	p := retrypolicy.NewBuilder[any]().WithMaxAttempts(attempts).WithDelay(delay).Build()
	return failsafe.With(p).WithContext(ctx).Run(func() error { return op(ctx) })
}

// valueless gives an operation the value that cenkalti's asks for.
func valueless(ctx context.Context, op operation) cenkalti.Operation[struct{}] {
	return func() (struct{}, error) { return struct{}{}, op(ctx) }
}

func marked(op operation) sethvargo.RetryFunc {
	return func(ctx context.Context) error { return sethvargo.RetryableError(op(ctx)) }
}

// failing counts its calls and always fails.
func failing(calls *int) operation {
	return func(context.Context) error {
		*calls++
		return errDown
	}
}

// Delays that double up to 10 s, with the jitter that a library has by default:
// full jitter here, half of the delay up and down in cenkalti's, 100 ms more in
// avast's, and none in the others.
const (
	longest = 10 * time.Second
	draws   = 2000
)

// A waiter returns 2000 waits of a schedule that has reached its maximum.
type waiter func(*testing.T) []time.Duration

var spreads = map[string]waiter{
	ours:          oursWaits(backoff.Policy{}),
	"cenkalti":    cenkaltiWaits,
	"avast":       avastMaxWaits(),
	"sethvargo":   sethvargoWaits(capped()),
	"failsafe-go": failsafeWaits(0),
}

var sharesAtMaximum = with(each(spreads, shareAtMaximum), map[string]observation{
	"avast":       also(shareAtMaximum, spreads["avast"], avastMaxWaits(avast.DelayType(avast.FullJitterBackoffDelay)), "FullJitterBackoffDelay"),
	"sethvargo":   also(shareAtMaximum, spreads["sethvargo"], sethvargoWaits(sethvargo.WithFullJitter(capped())), "WithFullJitter"),
	"failsafe-go": also(shareAtMaximum, spreads["failsafe-go"], failsafeWaits(0.5), "WithJitterFactor"),
})

func longestWait(t *testing.T, waits waiter) string {
	return fmt.Sprintf("%.0f s", slices.Max(waits(t)).Seconds())
}

func shareAtMaximum(t *testing.T, waits waiter) string {
	exactly, all := 0, waits(t)
	for _, wait := range all {
		if wait == longest {
			exactly++
		}
	}
	return fmt.Sprintf("%.0f %%", 100*float64(exactly)/float64(len(all)))
}

func oursWaits(p backoff.Policy) waiter {
	p.Schedule = backoff.Exponential{Max: longest}
	return func(*testing.T) []time.Duration { return drawn(func() time.Duration { return p.WaitBefore(20) }) }
}

func cenkaltiWaits(*testing.T) []time.Duration {
	b := cenkalti.NewExponentialBackOff()
	b.MaxInterval = longest
	for range 20 {
		b.NextBackOff()
	}
	return drawn(b.NextBackOff)
}

func avastMaxWaits(more ...avast.Option) waiter {
	return func(t *testing.T) []time.Duration {
		return avastWaits(t, 20, append(more, avast.Attempts(20+draws), avast.MaxDelay(longest))...)
	}
}

func capped() sethvargo.Backoff {
	return sethvargo.WithCappedDuration(longest, sethvargo.NewExponential(time.Second))
}

func sethvargoWaits(b sethvargo.Backoff) waiter {
	return func(*testing.T) []time.Duration {
		for range 20 {
			b.Next()
		}
		return drawn(func() time.Duration { d, _ := b.Next(); return d })
	}
}

func failsafeWaits(jitter float64) waiter {
	return func(*testing.T) []time.Duration {
		var waits []time.Duration
		b := retrypolicy.NewBuilder[any]().WithMaxAttempts(20+draws).WithBackoff(100*time.Millisecond, longest).
			OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[any]) { waits = append(waits, e.Delay) })
		if jitter > 0 {
			b = b.WithJitterFactor(jitter)
		}
		failsafe.With(b.Build()).Run(func() error { return errDown })
		return waits[20:]
	}
}

func drawn(next func() time.Duration) []time.Duration {
	all := make([]time.Duration, draws)
	for i := range all {
		all[i] = next()
	}
	return all
}

// avastWaits records the waits that are asked of the timer, but for the first
// ones.
func avastWaits(t *testing.T, skip int, options ...avast.Option) []time.Duration {
	timer := &recordingTimer{}
	avast.New(append(options, avast.WithTimer(timer), avast.LastErrorOnly(true))...).Do(func() error { return errDown })
	return timer.waits[skip:]
}

// recordingTimer is avast's clock for tests: no wait takes any time.
type recordingTimer struct{ waits []time.Duration }

func (r *recordingTimer) After(d time.Duration) <-chan time.Time {
	r.waits = append(r.waits, d)
	done := make(chan time.Time, 1)
	done <- time.Now()
	return done
}

func panicking(run func()) (seen string) {
	seen = "is accepted"
	defer func() {
		if recover() != nil {
			seen = "panics"
		}
	}()
	run()
	return seen
}
