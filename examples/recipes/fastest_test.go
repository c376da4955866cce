package recipes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// Two replicas are down, and one answers.
func Example_replicasByBreakers() {
	ctx := context.Background()
	ask := func(_ context.Context, addr string) (string, error) {
		if addr != "c:80" {
			return "", errors.New("down")
		}
		return "seven", nil
	}

	prices := newReplicas(100*time.Millisecond, "a:80", "b:80", "c:80") // once, not for each read

	answer, err := readFrom(ctx, prices, func(ctx context.Context, addr string) (string, error) {
		return ask(ctx, addr) // by a plain http.Client and backoffhttp.Check
	})

	fmt.Println(answer, err)
	// Output: seven <nil>
}

// A site has a good replica, which takes 10 ms, and others.
type site struct {
	up    bool // all are good
	mu    sync.Mutex
	asked map[string]int
}

func (s *site) ask(ctx context.Context, addr string) (string, error) {
	s.mu.Lock()
	s.asked[addr]++
	up := s.up
	s.mu.Unlock()
	took := 10 * time.Millisecond
	switch {
	case up:
	case addr == "dead":
		return "", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case addr == "slow":
		took = time.Second
	case addr == "hangs":
		took = time.Hour
	}
	select {
	case <-time.After(took):
		return addr, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Each of 240 reads gets an answer in time. The bad replicas get a few at first, and two every two
// seconds. When they are back, they get reads again.
func TestReadsGetAnAnswerThoughTwoOfThreeReplicasAreBad(t *testing.T) {
	for _, bad := range [][2]string{{"slow", "dead"}, {"hangs", "slow"}, {"dead", "hangs"}} {
		synctest.Test(t, func(t *testing.T) {
			r, s := newReplicas(100*time.Millisecond, "good", bad[0], bad[1]), &site{asked: map[string]int{}}
			read := func(n int) {
				t.Helper()
				for range n {
					ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
					if _, err := readFrom(ctx, r, s.ask); err != nil {
						t.Error(err)
					}
					cancel()
					time.Sleep(40 * time.Millisecond)
				}
			}
			read(240)
			for _, addr := range bad {
				if n := s.asked[addr]; n > 20 {
					t.Errorf("%s got %d of 240 reads", addr, n)
				}
			}
			s.up = true
			read(240)
			for _, replica := range r.all {
				if state := replica.breaker.State(); state != backoff.BreakerClosed {
					t.Errorf("%s is %v, and it is back", replica.addr, state)
				}
			}
		})
	}
}

// All reads come before a circuit has opened.
func TestManyReadsAtOnceGetAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newReplicas(100*time.Millisecond, "good", "slow", "hangs"), &site{asked: map[string]int{}}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
				defer cancel()
				if _, err := readFrom(ctx, r, s.ask); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// If all circuits are open, the replicas are asked all the same.
func TestAReadIsTriedWhileAllCircuitsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newReplicas(time.Minute, "a", "b"), &site{up: true, asked: map[string]int{}}
		for _, replica := range r.all {
			replica.breaker.Trip()
		}
		if _, err := readFrom(t.Context(), r, s.ask); err != nil {
			t.Error(err)
		}
	})
}

// A read that its caller cancels says nothing about the replica.
func TestACancelledReadOpensNoCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newReplicas(100*time.Millisecond, "a"), &site{up: true, asked: map[string]int{}}
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			_, _ = readFrom(ctx, r, s.ask)
			cancel()
			time.Sleep(20 * time.Millisecond)
		}
		if state := r.all[0].breaker.State(); state != backoff.BreakerClosed {
			t.Error(state)
		}
	})
}

// An attempt that a breaker inside refuses ends the hedging.
func TestAnOpenCircuitInsideAHedgeSendsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, calls := &backoff.Breaker{}, 0
		b.Trip()
		h := hedge.Hedge{Delay: time.Minute, MaxAttempts: 3, MaxExtraLoad: -1}
		_, err := hedge.Value(t.Context(), &h, func(ctx context.Context) (struct{}, error) {
			calls++
			return struct{}{}, b.Do(ctx, func(context.Context) error { return nil })
		}, nil)
		if calls != 1 || !errors.Is(err, backoff.ErrOpen) {
			t.Errorf("%d calls: %v", calls, err)
		}
	})
}

// A replica that hangs, and so loses each time, does not open its circuit.
func TestALoserCountsForNoBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := &backoff.Breaker{}, hedge.Hedge{Delay: 100 * time.Millisecond, MaxExtraLoad: -1}
		for range 100 {
			if _, err := hedge.Value(t.Context(), &h, func(ctx context.Context) (struct{}, error) {
				if hedge.Number(ctx) > 0 {
					return struct{}{}, nil
				}
				return struct{}{}, b.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			}, nil); err != nil {
				t.Error(err)
			}
		}
		if state := b.State(); state != backoff.BreakerClosed || h.Stats().Wins != 100 {
			t.Error(state, h.Stats())
		}
	})
}

// A budget that nothing has paid into refuses hedges if each call needs one.
func TestANewBudgetRefusesHedges(t *testing.T) {
	for budget, refuses := range map[backoff.Budget]bool{nil: false, new(backoff.RetryBudget): true} {
		synctest.Test(t, func(t *testing.T) {
			h := hedge.Hedge{Delay: lookups.Delay, MaxExtraLoad: -1, Budget: budget}
			s := &site{asked: map[string]int{}}
			for range 20 {
				_, _ = hedge.Value(t.Context(), &h, func(ctx context.Context) (string, error) {
					return s.ask(ctx, []string{"slow", "good"}[hedge.Number(ctx)])
				}, nil)
			}
			if n := h.Stats().Refused; refuses != (n > 0) {
				t.Errorf("with %T: %d of 20 hedges are refused", budget, n)
			}
		})
	}
}
