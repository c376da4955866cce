package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
)

var lookups = hedge.Hedge{ // one for all calls
	Name:         "price",
	Delay:        100 * time.Millisecond, // nearly all calls take less
	MaxExtraLoad: 0.1,                    // twice the share of those that take more
	Budget:       new(backoff.RetryBudget),
}

func lookUp(ctx context.Context, replicas []string) (price, error) {
	return hedge.Value(ctx, &lookups, func(ctx context.Context) (price, error) {
		n := hedge.Number(ctx) // 0, or 1 for the hedge; it runs on two goroutines, so it shares no variable
		return askPrice(ctx, replicas[n%len(replicas)])
	}, nil)
}

func askPrice(ctx context.Context, url string) (p price, err error) {
	text, err := textOf(ctx, http.DefaultClient, url)
	if err == nil {
		err = json.Unmarshal([]byte(text), &p)
	}
	return p, err
}

// One replica never answers, and the other one answers at once.
func Example_hedge() {
	hangs := faulty.Start(func(_ *faulty.Server, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	defer hangs.Close()
	answers := faulty.Start(faulty.Text(`{"Amount": 3.14}`))
	defer answers.Close()

	began := time.Now()
	p, err := lookUp(context.Background(), []string{hangs.URL, answers.URL})

	fmt.Println(p.Amount, err, "after the delay:", time.Since(began) >= lookups.Delay)
	// Output: 3.14 <nil> after the delay: true
}

// slowCalls makes calls, one after the other, of which one in twenty takes a second. It returns
// how many took much longer than 100 ms.
func slowCalls(t *testing.T, h *hedge.Hedge, calls int) (slow int) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range calls {
		first := 10 * time.Millisecond
		if dice.IntN(20) == 0 {
			first = time.Second
		}
		began := time.Now()
		_, err := hedge.Value(t.Context(), h, func(ctx context.Context) (struct{}, error) {
			took := first
			if hedge.Number(ctx) > 0 {
				took = 10 * time.Millisecond
			}
			select {
			case <-time.After(took):
				return struct{}{}, nil
			case <-ctx.Done():
				return struct{}{}, ctx.Err()
			}
		}, nil)
		if err != nil {
			t.Error(err)
		}
		if time.Since(began) > 150*time.Millisecond {
			slow++
		}
	}
	return slow
}

// With a share that is just that of the slow calls, some of these send no hedge.
func TestAHedgeNeedsAShareAboveThatOfTheSlowCalls(t *testing.T) {
	for share, least := range map[float64]int{lookups.MaxExtraLoad: 0, 0.05: 10} {
		synctest.Test(t, func(t *testing.T) {
			h := hedge.Hedge{Delay: lookups.Delay, MaxExtraLoad: share}
			if slow := slowCalls(t, &h, 20_000); slow < least || least == 0 && slow > 0 {
				t.Errorf("with %v: %d of some 1,000 slow calls stay slow", share, slow)
			}
		})
	}
}

// After an overload of ten seconds a measured delay is long for 40 seconds more. A Delay is not.
func TestAMeasuredDelayStaysLongAfterAnOverload(t *testing.T) {
	for delay, long := range map[time.Duration]bool{0: true, lookups.Delay: false} {
		synctest.Test(t, func(t *testing.T) {
			h := hedge.Hedge{Delay: delay, MaxExtraLoad: lookups.MaxExtraLoad}
			slowCalls(t, &h, 2000)
			before := h.Stats().Delay
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					_, _ = hedge.Value(t.Context(), &h, func(context.Context) (struct{}, error) {
						time.Sleep(800 * time.Millisecond)
						return struct{}{}, nil
					}, nil)
				})
				time.Sleep(10 * time.Millisecond)
			}
			all.Wait()
			began, slow := time.Now(), 0
			for time.Since(began) < 40*time.Second {
				slow += slowCalls(t, &h, 50)
			}
			if still := h.Stats().Delay; long != (still > 70*before) || long != (slow > 10) {
				t.Errorf("with Delay %v: it was %v, and is %v; %d calls were slow", delay, before, still, slow)
			}
		})
	}
}

// After "too much" a Pacer makes first attempts wait. A RetryBudget lets them go.
func TestARetryBudgetHoldsBackNoFirstAttempt(t *testing.T) {
	pacer, _ := (&guard.Service{}).Parts()
	throttled := backoff.RetryAfter(backoff.OfClass(errors.New("429"), backoff.ClassThrottled), 3*time.Second)
	for want, budget := range map[bool]backoff.Budget{true: new(backoff.RetryBudget), false: pacer} {
		synctest.Test(t, func(t *testing.T) {
			h := hedge.Hedge{Delay: lookups.Delay, Budget: budget}
			for _, answer := range []error{throttled, nil} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				sent := false
				_, err := hedge.Value(ctx, &h, func(context.Context) (struct{}, error) { sent = true; return struct{}{}, answer }, nil)
				if answer == nil && (sent != want || want != (err == nil)) {
					t.Errorf("%T: sent: %v, %v", budget, sent, err)
				}
				cancel()
			}
		})
	}
}
