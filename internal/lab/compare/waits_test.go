package compare

import (
	"fmt"
	"slices"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
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
}

var sharesAtMaximum = with(each(spreads, shareAtMaximum), map[string]observation{
	"avast":       or(shareOf(spreads["avast"]), shareOf(avastMaxWaits(avast.DelayType(avast.FullJitterBackoffDelay))), "FullJitterBackoffDelay"),
	"sethvargo":   or(shareOf(spreads["sethvargo"]), shareOf(sethvargoWaits(sethvargo.WithFullJitter(capped()))), "WithFullJitter"),
	"failsafe-go": or(shareOf(spreads["failsafe-go"]), shareOf(failsafeWaits(0.5)), "WithJitterFactor"),
})

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
