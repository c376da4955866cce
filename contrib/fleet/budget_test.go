package fleet_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/contrib/fleet"
)

var retry = backoff.Attempt{Number: 2}

// budget returns one of 20 per 10 s, in blocks of 5.
func budget(s fleet.Store) *fleet.Budget {
	return &fleet.Budget{Client: &fleet.Client{Store: s}, Name: "db", Allowance: 20, Block: 5}
}

// spend asks for n retries, confirms those that are granted, and returns how
// many were sent.
func spend(b *fleet.Budget, n int) (made int) {
	for range n {
		t, wait, ok := b.Reserve(retry)
		if !ok {
			continue
		}
		if wait != 0 {
			panic("a budget that waits")
		}
		time.Sleep(10 * time.Millisecond) // the backoff
		if !b.Confirm(t) {
			b.Done(t, backoff.Result{NotSent: true})
			continue
		}
		made++
		b.Done(t, backoff.Result{Failed: true})
	}
	return made
}

// left takes what is left of an allowance.
func left(t testing.TB, s fleet.Store, allowance int) int {
	claim := fleet.Claim{Block: "rest", Tokens: 100, Allowance: allowance, Window: 10 * time.Second}
	n, err := s.Take(t.Context(), "db", claim)
	require.NoError(t, err)
	return n
}

func TestFirstAttemptsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory)}
		b := budget(store)
		for range 1000 {
			ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
			require.True(t, ok)
			require.Zero(t, wait)
			b.Done(ticket, backoff.Result{})
		}
		b.Allowance = -1
		require.Equal(t, 1000, spend(b, 1000), "without an allowance there is no limit")
		require.Zero(t, store.Calls())
	})
}

// In any window there are no more than the allowance and a block per process.
func TestAFleetSpendsItsAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		const processes, allowance = 10, 200 // far more than a block for each
		var mu sync.Mutex
		var made []time.Time
		var group sync.WaitGroup
		for range processes {
			group.Go(func() {
				b := budget(store)
				b.Allowance = allowance
				for range 3000 {
					if spend(b, 1) == 1 {
						mu.Lock()
						made = append(made, time.Now())
						mu.Unlock()
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		group.Wait()
		most := 0
		for i, j := 0, 0; j < len(made); j++ {
			for made[j].Sub(made[i]) >= 10*time.Second {
				i++
			}
			most = max(most, j-i+1)
		}
		require.LessOrEqual(t, most, allowance+processes*5)
		require.GreaterOrEqual(t, len(made), 3*allowance, "in half a minute it is spent three times")
	})
}

func TestAProcessTakesOneBlockPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory)}
		b := budget(store)
		b.Allowance = 1_000_000
		b.Block = 0 // 10
		made := 0
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			made += spend(b, 1)
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, store.Calls(), int64(11))
		require.InDelta(t, 100, made, 10)
	})
}

func TestWithoutAStoreAProcessHasABlockPerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory)}
		store.Cut()
		b := budget(store)
		require.Equal(t, 5, spend(b, 1000))
		time.Sleep(11 * time.Second)
		require.Equal(t, 5, spend(b, 1000))
		store.Restore()
		time.Sleep(time.Minute)
		require.Equal(t, 5, spend(b, 1000), "the first block")
		time.Sleep(2 * time.Second)
		require.Equal(t, 5, spend(b, 1000), "and the next one")
	})
}

// What was spent on credit is paid when the answer comes.
func TestARetryDoesNotWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory), Delay: 30 * time.Millisecond}
		b := budget(store)
		b.Allowance = 7
		require.Equal(t, 5, spend(b, 5), "the first answer comes after three")
		require.Equal(t, 2, left(t, store, 7))
		time.Sleep(2 * time.Second)
		require.Zero(t, spend(b, 10), "nothing is left, and there is no credit")
	})
}

func TestARetryThatIsNeverConfirmedIsOwedWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(&faultyStore{Store: new(fleet.Memory), Fail: func(int64) bool { return true }})
		b.Window = time.Second
		for range 5 {
			ticket, _, ok := b.Reserve(retry)
			require.True(t, ok)
			synctest.Wait()
			b.Done(ticket, backoff.Result{Failed: true})
		}
		require.Zero(t, spend(b, 100))
		time.Sleep(time.Second)
		require.Equal(t, 5, spend(b, 100))
	})
}

func TestCloseGivesBackTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		b := budget(store)
		require.Equal(t, 2, spend(b, 2))
		require.NoError(t, b.Client.Close(t.Context()))
		require.Equal(t, 18, left(t, store, 20))
		time.Sleep(2 * time.Second)
		require.Equal(t, 5, spend(b, 1000), "after it the process has its own block")

		store = new(fleet.Memory)
		b = budget(&faultyStore{Store: store, Delay: -20 * time.Millisecond})
		_, _, ok := b.Reserve(retry)
		require.True(t, ok)
		synctest.Wait()
		require.NoError(t, b.Client.Close(t.Context()))
		require.Equal(t, 20, left(t, store, 20), "those that are on their way, too")
	})
}

func TestWhatWasLentIsRepaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory)}
		store.Cut()
		b := budget(store)
		require.Equal(t, 5, spend(b, 1000))
		store.Restore()
		time.Sleep(2 * time.Second) // the guard looks again
		require.Zero(t, spend(b, 10), "the first block is owed")
		time.Sleep(time.Second)
		require.Equal(t, 5, spend(b, 10))
	})
}

// Each ticket takes one token of a block, and gives it back at most once.
func TestATicketIsGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const block = 100
		b := budget(new(fleet.Memory))
		b.Allowance, b.Block = block, block
		r := rand.New(rand.NewPCG(1, 2))
		first, _, _ := b.Reserve(retry)
		synctest.Wait()
		b.Done(first, backoff.Result{Failed: true})
		type ticket struct {
			backoff.Ticket
			out bool
		}
		var tickets []ticket
		left := block - 1
		for range 10_000 {
			if i := r.IntN(2 * block); i < len(tickets) {
				made := r.IntN(10) == 0
				if tickets[i].out && !made {
					left++
				}
				b.Done(tickets[i].Ticket, backoff.Result{Failed: made, NotSent: !made})
				tickets[i].out = false
				continue
			}
			tk, _, ok := b.Reserve(retry)
			require.Equal(t, left > 0, ok)
			if ok {
				left--
				tickets = append(tickets, ticket{tk, true})
			}
			if len(tickets) > 2*block {
				tickets = tickets[block:]
			}
		}
	})
}

func TestATicketFromLongAgoIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const block = 1026
		b := budget(new(fleet.Memory))
		b.Allowance, b.Block = 10*block, block
		first, _, _ := b.Reserve(retry)
		synctest.Wait()
		b.Done(first, backoff.Result{Failed: true})
		var tickets []backoff.Ticket
		for range block - 1 {
			tk, _, ok := b.Reserve(retry)
			require.True(t, ok)
			tickets = append(tickets, tk)
		}
		_, _, ok := b.Reserve(retry)
		require.False(t, ok)
		b.Done(tickets[0], backoff.Result{NotSent: true})
		_, _, ok = b.Reserve(retry)
		require.False(t, ok, "there were 1024 after it")
		b.Done(tickets[1], backoff.Result{NotSent: true})
		_, _, ok = b.Reserve(retry)
		require.True(t, ok, "there were 1023 after it")
	})
}

func TestTheDefaultsOfABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := new(claims)
		spend(&fleet.Budget{Client: &fleet.Client{Store: asked}, Name: "db"}, 1)
		synctest.Wait()
		want := fleet.Claim{Block: asked.last.Block, Tokens: 10, Allowance: 100, Window: 10 * time.Second}
		require.Equal(t, want, asked.last)
		cut := &faultyStore{Store: new(fleet.Memory)}
		cut.Cut()
		require.Equal(t, 10, spend(&fleet.Budget{Client: &fleet.Client{Store: cut}, Name: "db"}, 100), "on credit: a block")
	})
}

// claims is a store that keeps what it was asked for last.
type claims struct {
	fleet.Memory
	last fleet.Claim
}

func (c *claims) Take(ctx context.Context, key string, claim fleet.Claim) (int, error) {
	c.last = claim
	return c.Memory.Take(ctx, key, claim)
}

// frozen never answers the second claim, and ignores its context.
type frozen struct {
	fleet.Memory
	claims atomic.Int32
	until  chan struct{}
}

func (f *frozen) Take(ctx context.Context, key string, c fleet.Claim) (int, error) {
	if f.claims.Add(1) > 1 {
		<-f.until
		return 0, errDown
	}
	return f.Memory.Take(ctx, key, c)
}

func TestWhereTheStoreHangsAProcessHasABlockPerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &frozen{until: make(chan struct{})}
		defer close(store.until)
		b := budget(store)
		require.Equal(t, 5, spend(b, 5))
		time.Sleep(2 * time.Second)
		require.Equal(t, 0, spend(b, 4), "it is asked, and may still answer")
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, 5, spend(b, 100), "it is late")
		time.Sleep(10*time.Second - 1)
		require.Equal(t, 5, spend(b, 1000))
	})
}

// A program may make budgets as it goes, one per tenant.
func TestAClientForgetsBudgetsWithoutTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &fleet.Client{Store: new(fleet.Memory)}
		first := &fleet.Budget{Client: hub, Name: "first"}
		require.Equal(t, 1, spend(first, 1), "100 in 10 s, unless said otherwise")
		gone := weak.Make(first)
		first = nil
		for i := range 100 {
			require.Equal(t, 1, spend(&fleet.Budget{Client: hub, Name: strconv.Itoa(i)}, 1))
			time.Sleep(time.Second)
		}
		runtime.GC()
		require.Nil(t, gone.Value())
		runtime.KeepAlive(hub)
	})
}

func TestABudgetThatMakesNoSenseIsRefused(t *testing.T) {
	hub := &fleet.Client{Store: new(fleet.Memory)}
	var none *fleet.Budget
	for want, b := range map[string]*fleet.Budget{
		"Budget holds a nil":   none,
		"Budget.Client is nil": {Name: "db"},
		"Budget.Name is empty": {Client: hub},
		"Budget.Window is -1s": {Client: hub, Name: "db", Window: -time.Second},
		"Budget.Block is -1":   {Client: hub, Name: "db", Block: -1},
		"Client.Store is nil":  {Client: &fleet.Client{}, Name: "db"},
	} {
		p := backoff.Policy{Budget: b}
		require.ErrorContains(t, p.Do(t.Context(), func(context.Context) error { return nil }), want)
	}
	require.NoError(t, budget(new(fleet.Memory)).Validate())
}

// A service that is down tells everybody to come back at the same time. What
// the fleet may make in each window of the outage does not add up.
func TestRetriesThatWaitForTheSameTimeStayWithinTheAllowance(t *testing.T) {
	for _, wait := range []time.Duration{8 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			store := new(fleet.Memory)
			const processes, allowance, block = 4, 20, 5
			back := time.Now().Add(wait)
			var made atomic.Int64
			var group sync.WaitGroup
			for range processes {
				b := budget(&faultyStore{Store: store, Delay: 10 * time.Millisecond})
				p := backoff.Policy{Budget: b, MaxAttempts: 2, Jitter: backoff.NoJitter}
				group.Go(func() {
					for time.Until(back) > 2*time.Second {
						group.Go(func() {
							first := true
							_ = p.Do(t.Context(), func(context.Context) error {
								if !first {
									made.Add(1)
									return nil
								}
								first = false
								return backoff.Pushback(errDown, time.Until(back))
							})
						})
						time.Sleep(50 * time.Millisecond)
					}
				})
			}
			group.Wait()
			require.Less(t, time.Since(back), time.Second)
			t.Log(wait, made.Load())
			require.LessOrEqual(t, made.Load(), int64(allowance+processes*block))
			require.GreaterOrEqual(t, made.Load(), int64(allowance), "and some are made")
		})
	}
}

// A call that waits for long has its token all the same, though the block that
// was there when it began to wait has expired.
func TestARetryAfterALongWaitIsMade(t *testing.T) {
	for _, wait := range []time.Duration{2 * time.Second, 9 * time.Second, 11 * time.Second, 19 * time.Second, time.Minute} {
		for _, cut := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store := &faultyStore{Store: new(fleet.Memory), Delay: 30 * time.Millisecond}
				b := budget(store)
				require.Equal(t, 1, spend(b, 1))
				time.Sleep(time.Second)
				p := backoff.Policy{Budget: b, MaxAttempts: 2, Jitter: backoff.NoJitter, Schedule: backoff.Constant(wait)}
				tries, began := 0, time.Now()
				require.NoError(t, p.Do(t.Context(), func(context.Context) error {
					if tries++; tries == 1 {
						if cut {
							store.Cut()
						}
						return errDown
					}
					return nil
				}), "%v", wait)
				require.LessOrEqual(t, time.Since(began), wait+50*time.Millisecond)
			})
		}
	}
}

// A store that hangs costs a retry no more than the documented time.
func TestARetryAfterALongWaitWaitsForTheStoreUpToTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		client *fleet.Client
		want   time.Duration
	}{
		"the default":            {&fleet.Client{}, 50 * time.Millisecond},
		"a timeout":              {&fleet.Client{Timeout: time.Second}, time.Second},
		"no timeout":             {&fleet.Client{Timeout: -1}, 50 * time.Millisecond},
		"a wait that is shorter": {&fleet.Client{Wait: time.Millisecond}, time.Millisecond},
		"a wait that is longer":  {&fleet.Client{Wait: time.Minute}, 50 * time.Millisecond},
		"no wait":                {&fleet.Client{Wait: -1}, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			b := &fleet.Budget{Client: c.client, Name: "db"}
			c.client.Store = &faultyStore{Store: new(fleet.Memory), Delay: time.Minute}
			long := retry
			long.Wait = time.Hour
			ticket, _, ok := b.Reserve(long)
			require.True(t, ok)
			time.Sleep(long.Wait)
			ticket, wait, ok := b.Pace(ticket)
			require.True(t, ok)
			require.Equal(t, c.want, wait)
			time.Sleep(wait)
			_, wait, ok = b.Pace(ticket)
			require.True(t, ok)
			require.Zero(t, wait, "it waits once")
			time.Sleep(time.Hour)
		})
	}
}

func TestTheBudgetKeepsTheContract(t *testing.T) {
	backofftest.Budget(t, func() backoff.Budget {
		return &fleet.Budget{Client: &fleet.Client{Store: new(fleet.Memory), Every: time.Hour}, Name: "db"}
	})
}
