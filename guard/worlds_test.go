package guard_test

// What calls that wait do to a service, and to their callers, over minutes. Worlds of
// restarts and of failures by chance are in internal/lab/guards.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/nightly"
)

// queueing is a service that serves one attempt after the other, each 5 ms
// later besides. It also serves those whose callers have left.
type queueing struct {
	rate func(age time.Duration) float64 // attempts a second; 0: it hangs
	room time.Duration                   // of work that it takes in

	began time.Time
	mu    sync.Mutex
	busy  time.Time
}

func (s *queueing) serve(ctx context.Context) error {
	wait, err := s.enqueue()
	if err != nil {
		return err
	}
	select {
	case <-time.After(wait + 5*time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enqueue takes an attempt in, and returns when it will be served.
func (s *queueing) enqueue() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	rate := s.rate(now.Sub(s.began))
	if s.busy.Before(now) {
		s.busy = now
	}
	switch {
	case rate == 0:
		return time.Hour, nil
	case s.busy.Sub(now) > s.room:
		return 0, errors.New("queue is full")
	}
	s.busy = s.busy.Add(time.Duration(float64(time.Second) / rate))
	return s.busy.Sub(now), nil
}

// load is calls to a service.
type load struct {
	perSecond float64
	lasts     time.Duration
	limit     time.Duration // of each call
	processes int

	calls, good [100]atomic.Int64 // in each two seconds
}

// run makes the calls. Each process has a Doer of its own.
func (l *load) run(s *queueing, doer func() backoff.Doer) {
	s.began = time.Now()
	var wg sync.WaitGroup
	for range max(1, l.processes) {
		wg.Go(func() {
			d := doer()
			for time.Since(s.began) < l.lasts {
				slot := time.Since(s.began) / (2 * time.Second)
				l.calls[slot].Add(1)
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), l.limit)
					defer cancel()
					if d.Do(ctx, s.serve) == nil {
						l.good[slot].Add(1)
					}
				})
				time.Sleep(time.Duration(2 * rand.Float64() * float64(time.Second) / l.perSecond * float64(max(1, l.processes))))
			}
		})
	}
	wg.Wait()
}

// share returns the share of calls that succeeded, of those that began from one
// time to another.
func (l *load) share(from, to time.Duration) float64 {
	var calls, good int64
	for slot := from / (2 * time.Second); slot < to/(2*time.Second); slot++ {
		calls, good = calls+l.calls[slot].Load(), good+l.good[slot].Load()
	}
	return float64(good) / float64(calls)
}

// A service that loses its capacity for a minute has it back soon: calls that
// wait do not come back as one load. Without waiting and without retries the queue of
// this service never becomes shorter again.
func TestCallsThatWaitDoNotKeepAServiceDown(t *testing.T) {
	nightly.Long(t)
	for _, left := range nightly.Size([]float64{0, 0.2}, []float64{0, 0.1, 0.2}) {
		for _, processes := range nightly.Size([]int{20}, []int{1, 20}) {
			for _, limit := range nightly.Size([]time.Duration{30 * time.Second}, []time.Duration{5 * time.Second, 30 * time.Second}) {
				t.Run(fmt.Sprintf("%v left, %v processes, %v", left, processes, limit), func(t *testing.T) {
					share := func(doer func() backoff.Doer) (whole, after float64) {
						synctest.Test(t, func(t *testing.T) {
							s := &queueing{room: 10 * time.Second, rate: func(age time.Duration) float64 {
								if age >= 20*time.Second && age < 80*time.Second {
									return 100 * left
								}
								return 100
							}}
							l := load{perSecond: 80, lasts: 2 * time.Minute, limit: limit, processes: processes}
							l.run(s, doer)
							whole, after = l.share(0, 2*time.Minute), l.share(108*time.Second, 2*time.Minute)
						})
						return whole, after
					}
					none, _ := share(func() backoff.Doer { return &backoff.Policy{AttemptTimeout: time.Second, MaxAttempts: 1} })
					waiting, after := share(func() backoff.Doer {
						return (&guard.Service{Budget: &backoff.RetryBudget{}}).With(backoff.Policy{AttemptTimeout: time.Second})
					})
					if limit == 30*time.Second {
						require.GreaterOrEqual(t, waiting, none)
					}
					require.GreaterOrEqual(t, waiting, none-0.15) // the circuit is open for 10 of 120 s more
					require.GreaterOrEqual(t, after, 0.9)
				})
			}
		}
	}
}

// A service throttles all calls for some minutes, as a used-up quota does. A circuit that
// opened would keep the Pacer from asking.
func TestAQuotaThatIsUsedUpOpensNoCircuitIfCallsArePaced(t *testing.T) {
	for _, paced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var s guard.Service
			if !paced {
				s.Budget = new(backoff.RetryBudget)
			}
			_, breaker := s.Parts()
			opened := false
			var calls sync.WaitGroup
			for range 600 {
				time.Sleep(500 * time.Millisecond)
				calls.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					defer cancel()
					_ = s.Do(ctx, backoff.Policy{}, func(context.Context) error {
						return backoff.OfClass(errors.New("quota"), backoff.ClassThrottled)
					})
				})
				opened = opened || breaker.State() != backoff.BreakerClosed
			}
			calls.Wait()
			require.Equal(t, !paced, opened)
		})
	}
}
