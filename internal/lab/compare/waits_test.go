package compare

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/gobackoff/backoff"
)

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
	"eapache":     eapacheWaits(0),
}

// avast's jitter is one that is added, and no share of the delay.
var jittered = said(map[string]observation{
	ours: or(longestOf(oursWaits(backoff.Policy{Jitter: backoff.UniformJitter(0.5, 1.5)})),
		longestOf(oursWaits(backoff.Policy{Jitter: backoff.UniformJitter(0.5, 1.5), MaxDelay: longest})), "MaxDelay"),
	"cenkalti": longestOf(cenkaltiWaits),
	"sethvargo": or(longestOf(sethvargoWaits(sethvargo.WithJitterPercent(50, capped()))),
		longestOf(sethvargoWaits(sethvargo.WithCappedDuration(longest, sethvargo.WithJitterPercent(50, capped())))), "WithCappedDuration around it"),
	"failsafe-go": longestOf(failsafeWaits(0.5)),
	"eapache":     longestOf(eapacheWaits(0.5)),
}, map[string]string{"cenkalti": "documented", "sethvargo": "documented"})

var sharesAtMaximum = with(each(spreads, shareAtMaximum), map[string]observation{
	"avast":       or(shareOf(spreads["avast"]), shareOf(avastMaxWaits(avast.DelayType(avast.FullJitterBackoffDelay))), "FullJitterBackoffDelay"),
	"sethvargo":   or(shareOf(spreads["sethvargo"]), shareOf(sethvargoWaits(sethvargo.WithFullJitter(capped()))), "WithFullJitter"),
	"failsafe-go": or(shareOf(spreads["failsafe-go"]), shareOf(failsafeWaits(0.5)), "WithJitterFactor"),
	"eapache":     or(shareOf(spreads["eapache"]), shareOf(eapacheWaits(0.5)), "SetJitter"),
})

func longestOf(waits waiter) observation {
	return virtual(func(t *testing.T) string { return longestWait(t, waits) })
}

func shareOf(waits waiter) observation {
	return virtual(func(t *testing.T) string { return shareAtMaximum(t, waits) })
}

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
	return func(*testing.T) []time.Duration { return drawn(func() time.Duration { return p.Delay(20) }) }
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

func eapacheWaits(jitter float64) waiter {
	return func(t *testing.T) []time.Duration {
		r := eapache.New(eapache.LimitedExponentialBackoff(20+draws, 100*time.Millisecond, longest), nil)
		r.SetJitter(jitter)
		var waits []time.Duration
		last := time.Now()
		r.RunCtx(t.Context(), func(context.Context) error {
			waits = append(waits, time.Since(last))
			last = time.Now()
			return errDown
		})
		return waits[21:]
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

var overflows = map[string]observation{
	ours: func(*testing.T) string {
		return years(backoff.Exponential{Initial: time.Hour, Max: -1}.Delay(60))
	},
	"cenkalti": func(*testing.T) string {
		b := &cenkalti.ExponentialBackOff{InitialInterval: time.Hour, Multiplier: 2, MaxInterval: math.MaxInt64}
		for range 59 {
			b.NextBackOff()
		}
		return years(b.NextBackOff())
	},
	"avast": func(t *testing.T) string {
		return years(avastWaits(t, 59, avast.Attempts(61), avast.Delay(time.Hour))[0])
	},
	"sethvargo": func(*testing.T) string {
		b := sethvargo.NewExponential(time.Hour)
		for range 59 {
			b.Next()
		}
		d, _ := b.Next()
		return years(d)
	},
	// failsafe-go's WithBackoff has no form without a maximum.
	"failsafe-go": func(*testing.T) string {
		var _ func(delay, maximum time.Duration) retrypolicy.Builder[any] = retrypolicy.NewBuilder[any]().WithBackoff
		return "a maximum must be set"
	},
	"eapache": func(*testing.T) string { return years(eapache.ExponentialBackoff(60, time.Hour)[59]) },
}

// years tells a wait that no one will live to see by its years.
func years(d time.Duration) string {
	if d > 24*time.Hour {
		return fmt.Sprintf("%.0f years", d.Hours()/24/365.25)
	}
	return d.String()
}

var zeroValues = map[string]observation{
	ours: virtual(func(t *testing.T) string {
		return withinAMinute(t, func(ctx context.Context, op operation) { backoff.Policy{}.Do(ctx, op) })
	}),
	"cenkalti": virtual(func(t *testing.T) string {
		return withinAMinute(t, func(ctx context.Context, op operation) {
			cenkalti.Retry(ctx, valueless(ctx, op), cenkalti.WithBackOff(&cenkalti.ExponentialBackOff{}))
		})
	}),
	"avast": virtual(func(t *testing.T) string {
		return withinAMinute(t, func(ctx context.Context, op operation) {
			new(avast.Retrier).Do(func() error { return op(ctx) })
		})
	}),
	"eapache": virtual(func(t *testing.T) string {
		return withinAMinute(t, func(ctx context.Context, op operation) { new(eapache.Retrier).RunCtx(ctx, op) })
	}),
}

// withinAMinute tells what a loop does in a minute, or until it has made 1000
// attempts in a row without a wait.
func withinAMinute(t *testing.T, run func(context.Context, operation)) (seen string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began, calls := time.Now(), 0
	defer func() {
		if e := recover(); e != nil {
			seen = "panics"
		}
	}()
	run(ctx, func(context.Context) error {
		if calls++; calls == 1000 {
			cancel()
		}
		return errDown
	})
	if calls >= 1000 {
		return "retries without a wait"
	}
	if time.Since(began) == 0 && calls == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", calls)
}

// badSettings try a factor of jitter or a bound that cannot be.
var badSettings = map[string]observation{
	ours: virtual(func(t *testing.T) string {
		calls := 0
		p := backoff.Policy{Jitter: backoff.UniformJitter(-1, 3)}
		if err := p.Do(t.Context(), failing(&calls)); err == nil || calls > 0 {
			return fmt.Sprintf("%v after %d attempts", err, calls)
		}
		return "UniformJitter(-1, 3) is an error before the first attempt"
	}),
	"cenkalti": virtual(func(*testing.T) string {
		b := cenkalti.NewExponentialBackOff()
		b.RandomizationFactor = 3
		var shortest time.Duration
		for range 200 {
			shortest = min(shortest, b.NextBackOff())
		}
		if shortest < 0 {
			return "never: a RandomizationFactor of 3 draws negative delays"
		}
		return "a factor of 3 draws no negative delay"
	}),
	"avast": virtual(func(*testing.T) string {
		calls := 0
		seen := panicking(func() { avast.New(avast.MaxJitter(-1)).Do(func() error { calls++; return errDown }) })
		return fmt.Sprintf("MaxJitter(-1) %s, %d attempt", seen, calls)
	}),
	"sethvargo": virtual(func(*testing.T) string {
		return "NewConstant(0) " + panicking(func() { sethvargo.NewConstant(0) }) + " when built"
	}),
	"failsafe-go": virtual(func(*testing.T) string {
		return "WithJitterFactor(3) " + panicking(func() { retrypolicy.NewBuilder[any]().WithJitterFactor(3).Build() }) + " when built"
	}),
	"eapache": virtual(func(*testing.T) string {
		r := eapache.New(eapache.ConstantBackoff(1, time.Second), nil)
		return "SetJitter(3) " + panicking(func() { r.SetJitter(3) })
	}),
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
