package guides

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
)

// needed returns how many attempts a call needs to reach an objective, if an
// attempt fails with some probability, whatever became of the others.
func needed(objective, failing float64) int {
	n := 1
	for missed := failing; missed > 1-objective+1e-12; missed *= failing {
		n++
	}
	return n
}

func Example_patternsNeeded() {
	for _, failing := range []float64{0.01, 0.05, 0.10, 0.20, 0.50} {
		fmt.Printf("%2.0f %%: %d attempts for 99.9 %%, %2d for 99.99 %%; %3.0f %% more load\n", 100*failing,
			needed(0.999, failing), needed(0.9999, failing), 100*failing/(1-failing))
	}
	// Output:
	//  1 %: 2 attempts for 99.9 %,  2 for 99.99 %;   1 % more load
	//  5 %: 3 attempts for 99.9 %,  4 for 99.99 %;   5 % more load
	// 10 %: 3 attempts for 99.9 %,  4 for 99.99 %;  11 % more load
	// 20 %: 5 attempts for 99.9 %,  6 for 99.99 %;  25 % more load
	// 50 %: 10 attempts for 99.9 %, 14 for 99.99 %; 100 % more load
}

// A caller that waits up to Max under full jitter goes on a third of Max after
// the service is back, on average, and asks twice in Max until then.
func TestACallerIsLateByAThirdOfMax(t *testing.T) {
	for _, most := range []time.Duration{time.Second, 10 * time.Second, 30 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			late, perSecond := callers(t, most)
			t.Logf("Max %v: %v late, 1000 callers ask %.0f times a second", most, late, perSecond)
			if share := late.Seconds() / most.Seconds(); math.Abs(share-1.0/3) > 0.06 {
				t.Errorf("%.2f of %v late", share, most)
			}
			if want := 2000 / most.Seconds(); math.Abs(perSecond-want) > 0.1*want {
				t.Errorf("%.1f attempts a second, want %.1f", perSecond, want)
			}
		})
	}
}

// callers wait for a service that is down for ten minutes. It returns how late
// they go on afterwards, on average, and how often 1000 of them ask in a second
// of the second half of the outage.
func callers(t *testing.T, most time.Duration) (late time.Duration, perSecond float64) {
	const n, outage = 300, 10 * time.Minute
	policy := backoff.Policy{MaxAttempts: -1, Schedule: backoff.Exponential{Max: most}}
	began := time.Now()
	var lateness, asked atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			_ = policy.Do(t.Context(), func(context.Context) error {
				switch after := time.Since(began); {
				case after >= outage:
					lateness.Add(int64(after - outage))
					return nil
				case after > outage/2:
					asked.Add(1)
				}
				return errDown
			})
		})
	}
	all.Wait()
	return time.Duration(lateness.Load() / n), float64(asked.Load()) / n * 1000 / (outage / 2).Seconds()
}

// sessions are ten thousand clients of a server whose connections all break at
// the same moment.
type sessions struct {
	mu                 sync.Mutex
	broken             chan struct{}
	dialling, most, up int
	since, latest      time.Time
}

const manySessions = 10_000

func (s *sessions) count(n *int, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n += by
	s.most = max(s.most, s.dialling)
	if n == &s.up && by > 0 {
		s.latest = time.Now()
	}
}

func (s *sessions) breakAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.broken)
	s.broken, s.since = make(chan struct{}), time.Now()
}

func (s *sessions) dial(context.Context) (<-chan struct{}, error) {
	s.count(&s.dialling, 1)
	defer s.count(&s.dialling, -1)
	time.Sleep(20 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken, nil
}

// checkAllAreBack looks a minute after the connections broke.
func (s *sessions) checkAllAreBack(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.latest.Sub(s.since)
	t.Logf("%d connected after %v; at most %d dialled at once", s.up, took, s.most)
	if s.up != manySessions || s.most > 100 || took > 30*time.Second {
		t.Errorf("%d connected after %v; %d dialled at once", s.up, took, s.most)
	}
}

func (s *sessions) serve(ctx context.Context, broken <-chan struct{}) error {
	s.count(&s.up, 1)
	defer s.count(&s.up, -1)
	select {
	case <-broken:
		return errors.New("connection lost")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestNoMoreSessionsReconnectAtOnceThanTheirLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sessions{broken: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		connect := reconnecting(s.dial, s.serve)
		for range manySessions {
			all.Go(func() { _ = presence.RunReady(ctx, connect) })
		}
		for range 3 {
			time.Sleep(time.Minute)
			s.breakAll()
			time.Sleep(time.Minute)
			s.checkAllAreBack(t)
		}
	})
}

var presence = backoff.Supervisor{Policy: backoff.Policy{
	Name:     "presence",
	Schedule: backoff.Exponential{Initial: time.Second, Max: 10 * time.Second},
	Budget:   &limit.Concurrency{Max: 100}, // of all sessions of the process, at once
}}

func reconnecting[C any](dial func(context.Context) (C, error), serve func(context.Context, C) error) func(context.Context, func()) error {
	return func(ctx context.Context, ready func()) error {
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		ready() // now another session may dial
		return serve(ctx, conn)
	}
}
