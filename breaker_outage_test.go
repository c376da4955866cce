package backoff_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
)

// outageWorld is a service that is down at times, and a client that calls it.
type outageWorld struct {
	rate   int                      // calls a second
	lasts  time.Duration            // how long they come
	isDown func(time.Duration) bool // at an age of the world
	fail   func(context.Context) error

	down   int          // calls that began while the service was down
	failed int          // of all calls
	probes atomic.Int64 // calls that met the service while it was down and the circuit not closed
}

// run lets the calls come.
func (w *outageWorld) run(b *backoff.Breaker) {
	began, calls := time.Now(), int(w.lasts.Seconds()*float64(w.rate))
	results := make(chan error, calls)
	for range calls {
		if w.isDown(time.Since(began)) {
			w.down++
		}
		go func() {
			results <- b.Do(context.Background(), func(ctx context.Context) error {
				if !w.isDown(time.Since(began)) {
					return nil
				}
				if b.State() != backoff.BreakerClosed {
					w.probes.Add(1)
				}
				return w.fail(ctx)
			})
		}()
		time.Sleep(time.Second / time.Duration(w.rate))
	}
	for range calls {
		if <-results != nil {
			w.failed++
		}
	}
}

// hangs is what a service does that answers nobody, to a client that gives an
// attempt a second.
func hangs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

var downWays = map[string]func(context.Context) error{
	"refuses": func(context.Context) error { return refused },
	"says so": func(context.Context) error { return errOutage },
	"hangs":   hangs,
}

// An outage of any length costs its own calls, a part of them, and half a second.
func TestAnOutageCostsATinyPartMoreThanItself(t *testing.T) {
	const begins = 20 * time.Second
	for name, fail := range downWays {
		for _, length := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
			for _, rate := range nightly.Size([]int{1, 10, 100}, []int{1, 10, 100, 1000}) {
				bubble(t, fmt.Sprint(name, " for ", length, ", ", rate, " calls a second"), func(t *testing.T) {
					isDown := func(age time.Duration) bool { return age >= begins && age < begins+length }
					w := outageWorld{rate: rate, lasts: begins + 2*length + 10*time.Second, isDown: isDown, fail: fail}
					w.run(&backoff.Breaker{Rand: rand.New(rand.NewPCG(1, 0)).Float64})
					require.LessOrEqual(t, w.failed, w.down+w.down/32+max(rate/2, 2))
					require.LessOrEqual(t, w.probes.Load(), int64(200))
				})
			}
		}
	}
}

// After each time that it is away, a quarter of that is lost at most, up to 0.4 s.
func TestAServiceThatComesAndGoesServesNearlyAllItCan(t *testing.T) {
	for _, half := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 8 * time.Second} {
		bubble(t, half.String(), func(t *testing.T) {
			isDown := func(age time.Duration) bool { return age/half%2 == 1 }
			w := outageWorld{rate: 20, lasts: 50 * half, isDown: isDown, fail: downWays["refuses"]}
			w.run(&backoff.Breaker{Rand: rand.New(rand.NewPCG(1, 0)).Float64})
			lost := min(half.Seconds()/4, 0.33) * 1.2
			require.LessOrEqual(t, w.failed, w.down+int(25*20*lost))
		})
	}
}
