package fleet_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

// babbler is a store that says anything, until it is honest.
type babbler struct {
	fleet.Memory
	honest atomic.Bool

	mu     sync.Mutex
	random *rand.Rand
}

// below returns a random number below n.
func (l *babbler) below(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

func (l *babbler) number() int64 {
	return []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, int64(time.Second), int64(time.Hour), math.MaxInt64 - 1, math.MaxInt64}[l.below(9)]
}

func (l *babbler) circuit(c fleet.Circuit, err error) (fleet.Circuit, error) {
	if l.honest.Load() {
		return c, err
	}
	if l.below(10) == 0 {
		return fleet.Circuit{}, errors.New("no")
	}
	return fleet.Circuit{
		Generation: uint64(l.number()), Tripped: l.below(2) > 0, Open: time.Duration(l.number()),
		Openings: int(l.number()), Leased: time.Duration(l.number()), Mine: l.below(2) > 0,
	}, nil
}

func (l *babbler) Load(ctx context.Context, key string) (fleet.Circuit, error) {
	return l.circuit(l.Memory.Load(ctx, key))
}

func (l *babbler) Trip(ctx context.Context, key string, t fleet.Trip) (fleet.Circuit, error) {
	return l.circuit(l.Memory.Trip(ctx, key, t))
}

func (l *babbler) Lease(ctx context.Context, key, by string, d time.Duration) (fleet.Circuit, error) {
	return l.circuit(l.Memory.Lease(ctx, key, by, d))
}

func (l *babbler) Reset(ctx context.Context, key, by string, generation uint64) (fleet.Circuit, error) {
	return l.circuit(l.Memory.Reset(ctx, key, by, generation))
}

func (l *babbler) Take(ctx context.Context, key string, c fleet.Claim) (int, error) {
	if l.honest.Load() {
		return l.Memory.Take(ctx, key, c)
	}
	return int(l.number()), nil
}

func TestAfterAStoreHasSaidAnythingAHealthyServiceIsServedAgain(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			store := &babbler{random: rand.New(rand.NewPCG(seed, 1))}
			hub := &fleet.Client{Store: store, Wait: time.Second}
			b := backoff.Breaker{Name: "search", Shared: hub}
			fails := func(context.Context) error { return errors.New("down") }
			works := func(context.Context) error { return nil }
			for i := range 600 {
				if i%3 > 0 {
					_ = b.Do(t.Context(), fails)
				} else {
					_ = b.Do(t.Context(), works)
				}
				time.Sleep(time.Second / 2)
			}
			store.honest.Store(true)
			for began := time.Now(); time.Since(began) < 7*time.Minute; time.Sleep(time.Second) {
				_ = b.Do(t.Context(), works)
			}
			for range 100 {
				require.NoError(t, b.Do(t.Context(), works), "seed %d", seed)
				time.Sleep(time.Second)
			}
			require.NoError(t, hub.Close(t.Context()))
		})
	}
}

func TestAStoreThatGrantsMoreThanItWasAskedForGrantsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &babbler{random: rand.New(rand.NewPCG(1, 1))}
		hub := &fleet.Client{Store: store}
		budget := &fleet.Budget{Client: hub, Name: "search", Block: 10}
		made := 0
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, _, ok := budget.Reserve(backoff.Attempt{Number: 2}); ok {
				made++
			}
		}
		require.LessOrEqual(t, made, 150, "a block for each second, and one more, and their like on credit")
		require.NoError(t, hub.Close(t.Context()))
	})
}
