package fleet_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

var errDown = errors.New("down")

// bubble runs a test under a clock of its own.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// breaker returns one that opens at the third failure in a row, for exactly 5,
// 10, 20 s.
func breaker(hub *fleet.Client) *backoff.Breaker {
	return &backoff.Breaker{Name: "db", Shared: hub, ConsecutiveFailures: 3, ConsecutiveSpan: -1, Jitter: backoff.NoJitter}
}

// call makes n calls, and returns how many were admitted.
func call(t testing.TB, b *backoff.Breaker, n int, err error) (admitted int) {
	for range n {
		_ = b.Do(t.Context(), func(context.Context) error {
			admitted++
			return err
		})
	}
	return admitted
}

// steady calls every 100 ms for d.
func steady(t testing.TB, b *backoff.Breaker, d time.Duration, err error) int {
	return rounds(t, []*backoff.Breaker{b}, int(d/(100*time.Millisecond)), err)
}

// rounds has each process call once, n times, every 100 ms.
func rounds(t testing.TB, all []*backoff.Breaker, n int, err error) (admitted int) {
	for range n {
		for _, b := range all {
			admitted += call(t, b, 1, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return admitted
}

// trip has two processes open the circuit of the fleet, for d.
func trip(t testing.TB, s fleet.Store, d time.Duration) {
	seen := known(t, s).Generation + 100
	for _, by := range []string{"x", "y"} {
		vote := fleet.Trip{By: by, Voter: by, Seen: seen, Open: d, Openings: 1, Quorum: 2}
		_, err := s.Trip(t.Context(), "db", vote)
		require.NoError(t, err)
	}
}

// known returns what a store knows of the circuit.
func known(t testing.TB, s fleet.Store) fleet.Circuit {
	c, err := s.Load(t.Context(), "db")
	require.NoError(t, err)
	return c
}

func TestAProcessLooksOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory)}
		b := breaker(&fleet.Client{Store: store})
		for range 60_000 {
			call(t, b, 1, nil)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		require.LessOrEqual(t, store.Calls(), int64(61))
		require.GreaterOrEqual(t, store.Calls(), int64(49), "a fifth of a second later at most, and a call later")
	})
}

func TestNobodyTalksToTheStoreWhereThereAreNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory)}
		hub := &fleet.Client{Store: store}
		call(t, breaker(hub), 3, nil)
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, store.Calls())
		// A bubble that ends with a goroutine in it panics.
	})
}

func TestAProcessHearsWithinAboutASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		b := breaker(&fleet.Client{Store: store})
		steady(t, b, time.Second, nil)
		trip(t, store, time.Minute)
		require.LessOrEqual(t, steady(t, b, 5*time.Second, nil), 14)
		require.Equal(t, backoff.BreakerOpen, b.State())
		open, ok := errors.AsType[*backoff.OpenError](b.Do(t.Context(), nil))
		require.True(t, ok)
		require.Equal(t, fleet.ErrTripped, open.Last)
	})
}

func TestAnOpeningIsKnownUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		b := breaker(&fleet.Client{Store: store})
		trip(t, store, 30*time.Second)
		require.Equal(t, 1, call(t, b, 1, nil), "it sends for the news")
		time.Sleep(29 * time.Second)
		require.Zero(t, call(t, b, 1, nil))
	})
}

// lookouts is a store that records when it is asked.
type lookouts struct {
	fleet.Memory
	mu    sync.Mutex
	since time.Time
	asked []time.Duration
}

func (l *lookouts) Load(ctx context.Context, key string) (fleet.Circuit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, time.Since(l.since))
	return l.Memory.Load(ctx, key)
}

// The many processes of a fleet must not do the same thing at the same time.
func TestProcessesOfAFleetSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes = 100
		store := &lookouts{since: time.Now()}
		var all []*backoff.Breaker
		for range processes {
			b := breaker(&fleet.Client{Store: store})
			b.MinCalls = 1_000_000 // it does not trust its own eyes
			all = append(all, b)
		}
		round := func(n int) {
			for range n {
				for _, b := range all {
					call(t, b, 1, nil)
				}
				time.Sleep(time.Millisecond)
			}
			synctest.Wait()
		}
		round(1300)
		require.Len(t, store.asked, 2*processes)
		require.Zero(t, store.asked[processes-1], "the first look")
		looks := map[time.Duration]int{}
		for _, at := range store.asked[processes:] {
			looks[at/(40*time.Millisecond)]++
			require.GreaterOrEqual(t, at, time.Second)
			require.LessOrEqual(t, at, 1210*time.Millisecond)
		}
		require.GreaterOrEqual(t, len(looks), 5, "the next one is spread over a fifth of a second: %v", looks)

		trip(t, store, 10*time.Second)
		round(1500)
		ends := map[time.Duration]int{}
		for _, b := range all {
			after := b.Stats().RetryAfter
			require.Greater(t, after, 8*time.Second, "10 s, less 1.5")
			require.Less(t, after, 11*time.Second)
			ends[after/(250*time.Millisecond)]++
		}
		require.GreaterOrEqual(t, len(ends), 4, "over a second: %v", ends)
	})
}

func TestOneSickProcessDoesNotStopAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		sick, well := breaker(&fleet.Client{Store: store}), breaker(&fleet.Client{Store: store})
		for range 600 {
			call(t, sick, 1, errDown)
			require.Equal(t, 1, call(t, well, 1, nil))
			time.Sleep(100 * time.Millisecond)
		}
		// Unless it may.
		hub := &fleet.Client{Store: store, Quorum: -1}
		call(t, breaker(hub), 3, errDown)
		synctest.Wait()
		require.True(t, known(t, store).Tripped)
	})
}

func TestProcessesOfOneVoterAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		for range 10 {
			call(t, breaker(&fleet.Client{Store: store, Voter: "host"}), 3, errDown)
		}
		synctest.Wait()
		require.False(t, known(t, store).Tripped)
	})
}

func TestAFleetProbesOnceAndAllHearOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		var all []*backoff.Breaker
		for range 10 {
			all = append(all, breaker(&fleet.Client{Store: store}))
		}
		require.Equal(t, 30, rounds(t, all, 3, errDown))
		require.Zero(t, rounds(t, all, 1, errDown))
		for range 600 { // a minute; it opens for 5, 6, 7.2, 8.6, 10.4, 12.4, 14.9 s
			require.LessOrEqual(t, rounds(t, all, 1, errDown), 1)
		}
		c := known(t, store)
		require.EqualValues(t, 7, c.Generation, "six probes have failed")
		require.Equal(t, 7, c.Openings)
		rounds(t, all, 1000, nil)
		require.Equal(t, 10, rounds(t, all, 1, nil))
		require.False(t, known(t, store).Tripped)
	})
}

// The store hears of an opening later than the breaker that opens, so for the
// store it also ends later. The breaker is told to stay open for that little
// more. Its probe has all its time even so.
func TestAProbeHasTimeThoughTheStoreIsBehind(t *testing.T) {
	for _, delay := range []time.Duration{time.Microsecond, 5 * time.Millisecond, -5 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			store := new(fleet.Memory)
			b := breaker(&fleet.Client{Store: &faultyStore{Store: store, Delay: delay}, Quorum: -1})
			call(t, b, 3, errDown)
			began := time.Now()
			for b.State() != backoff.BreakerClosed && time.Since(began) < time.Minute {
				_ = b.Do(t.Context(), func(context.Context) error {
					time.Sleep(time.Second)
					return nil
				})
				time.Sleep(10 * time.Millisecond)
			}
			require.Less(t, time.Since(began), 7500*time.Millisecond, "5 s, two probes, and a few calls in vain: %v", delay)
			synctest.Wait()
			require.False(t, known(t, store).Tripped)
		})
	}
}

// It would be refused otherwise, as the calls beside it are.
func TestOnlyTheCallThatAsksForTheProbeWaits(t *testing.T) {
	for _, c := range []struct {
		wait, timeout, delay time.Duration
		waits                time.Duration
		admitted             int
	}{
		{delay: 20 * time.Millisecond, waits: 20 * time.Millisecond, admitted: 1},
		{delay: time.Minute, waits: 50 * time.Millisecond, admitted: 1}, // overdue: its own rules
		{timeout: 30 * time.Millisecond, delay: time.Minute, waits: 30 * time.Millisecond, admitted: 1},
		{timeout: time.Second, delay: 100 * time.Millisecond, waits: 100 * time.Millisecond, admitted: 1},
		{timeout: -1, delay: 100 * time.Millisecond, waits: 50 * time.Millisecond, admitted: 1}, // too late
		{wait: -1, delay: 20 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			way := &faultyStore{Store: new(fleet.Memory), Delay: -c.delay} // the effect is made at once
			b := breaker(&fleet.Client{Store: way, Quorum: -1, Wait: c.wait, Timeout: c.timeout})
			call(t, b, 3, errDown)
			time.Sleep(time.Minute)
			began := time.Now()
			var beside int
			var took time.Duration
			var group sync.WaitGroup
			group.Go(func() {
				time.Sleep(time.Nanosecond)
				began := time.Now()
				beside, took = call(t, b, 1, nil), time.Since(began)
			})
			require.Equal(t, c.admitted, call(t, b, 1, nil), "%+v", c)
			require.Equal(t, c.waits, time.Since(began), "%+v", c)
			group.Wait()
			time.Sleep(time.Minute)
			require.Zero(t, beside, "%+v", c)
			require.Zero(t, took, "%+v", c)
		})
	}
}

func TestAFleetHearsOfAProbeThatTookLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		b := breaker(&fleet.Client{Store: store, Quorum: -1})
		b.ProbeSuccesses = 1
		call(t, b, 3, errDown)
		time.Sleep(5 * time.Second)
		require.NoError(t, b.Do(t.Context(), func(context.Context) error {
			time.Sleep(5*time.Second - 1)
			return nil
		}))
		synctest.Wait()
		require.False(t, known(t, store).Tripped)
	})
}

// The lease begins when the store grants it, the probe with the next call that
// knows.
func TestALeaseIsThereWhenTheNextCallComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(&fleet.Client{Store: &faultyStore{Store: new(fleet.Memory), Delay: -20 * time.Millisecond}, Quorum: -1})
		b.OpenFor = backoff.Constant(time.Millisecond)
		call(t, b, 3, errDown)
		steady(t, b, 5*time.Second, nil)
		require.Equal(t, backoff.BreakerClosed, b.State())
	})
}

func TestALeaseThatIsNotUsedIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		b := breaker(&fleet.Client{Store: store, Wait: -1})
		call(t, b, 1, nil)
		synctest.Wait()
		trip(t, store, time.Second)
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, call(t, b, 1, nil), "it was closed when it was asked last")
		synctest.Wait()
		require.Zero(t, call(t, b, 1, nil))
		synctest.Wait()
		require.NotZero(t, known(t, store).Leased, "it asked for the lease")
		time.Sleep(3 * time.Second)
		require.Zero(t, known(t, store).Leased, "and had no use for it")
	})
}

// liar always gives the same answer, under a new generation each time.
type liar struct {
	fleet.Memory
	says fleet.Circuit
	new  bool
}

func (l *liar) tell() (fleet.Circuit, error) {
	if l.new {
		l.says.Generation++
	}
	return l.says, nil
}

func (l *liar) Load(context.Context, string) (fleet.Circuit, error)             { return l.tell() }
func (l *liar) Trip(context.Context, string, fleet.Trip) (fleet.Circuit, error) { return l.tell() }
func (l *liar) Lease(context.Context, string, string, time.Duration) (fleet.Circuit, error) {
	return l.tell()
}
func (l *liar) Reset(context.Context, string, string, uint64) (fleet.Circuit, error) { return l.tell() }

// Whatever a wrong store says, the process finds out for itself within Trust
// and a fifth. If the store keeps saying the same, the process no longer
// believes it.
func TestAStoreThatLiesIsFoundOut(t *testing.T) {
	for name, lie := range map[string]*liar{
		"open for ever":            {says: fleet.Circuit{Generation: 7, Tripped: true, Open: 1<<63 - 1}},
		"half-open for ever":       {says: fleet.Circuit{Generation: 7, Tripped: true, Leased: 1<<63 - 1}},
		"times that are negative":  {says: fleet.Circuit{Generation: 7, Tripped: true, Open: -1 << 63, Leased: -1 << 63}},
		"new all the time":         {says: fleet.Circuit{Generation: 7, Tripped: true, Open: time.Hour}, new: true},
		"a lease that is over":     {says: fleet.Circuit{Generation: 7, Tripped: true, Leased: 1, Mine: true}},
		"a lease that is not ours": {says: fleet.Circuit{Generation: 7, Tripped: true, Leased: time.Hour}, new: true},
	} {
		bubble(t, name, func(t *testing.T) {
			b := breaker(&fleet.Client{Store: lie, Trust: time.Minute})
			call(t, b, 1, nil)
			synctest.Wait()
			var silent, worst time.Duration
			for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(100 * time.Millisecond) {
				if silent += 100 * time.Millisecond; call(t, b, 1, nil) > 0 {
					silent = 0
				}
				worst = max(worst, silent)
			}
			require.LessOrEqual(t, worst, 75*time.Second)
			if !lie.new {
				require.Equal(t, 100, call(t, b, 100, nil))
			}
		})
	}
}

func TestAProcessThatFoundOutBelievesTheNextOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lie := &liar{says: fleet.Circuit{Generation: 7, Tripped: true, Leased: time.Hour}}
		b := breaker(&fleet.Client{Store: lie, Trust: time.Minute})
		b.MinCalls = 1_000_000 // it does not trust its own eyes
		steady(t, b, 2*time.Minute, nil)
		require.Equal(t, 100, call(t, b, 100, nil), "it found out")
		synctest.Wait()
		lie.says.Generation++
		require.Less(t, steady(t, b, 50*time.Second, nil), 30)
	})
}

func TestTrustMayHaveNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lie := &liar{says: fleet.Circuit{Generation: 7, Tripped: true, Leased: time.Hour}}
		b := breaker(&fleet.Client{Store: lie, Trust: -1})
		call(t, b, 1, nil)
		synctest.Wait()
		require.Zero(t, steady(t, b, time.Hour, nil))
		synctest.Wait()
		lie.says = fleet.Circuit{Generation: 8}
		require.Less(t, 580, steady(t, b, time.Minute, nil))
	})
}

// A store that was restored from an old copy reports what is long past.
func TestAnOlderGenerationIsNotBelievedAsLongAsTheNewerOneLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lie := &liar{says: fleet.Circuit{Generation: 9, Tripped: true, Open: 5 * time.Second}}
		b := breaker(&fleet.Client{Store: lie})
		call(t, b, 3, errDown)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		lie.says = fleet.Circuit{Generation: 3}
		require.Zero(t, steady(t, b, time.Second, nil), "it is half-open, and asks")
		require.NotZero(t, steady(t, b, 10*time.Second, nil))
	})
}

// crasher panics.
type crasher struct{ fleet.Store }

func TestAStoreThatPanicsHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := &backoff.Breaker{ConsecutiveFailures: 3, ConsecutiveSpan: -1}
		b := breaker(&fleet.Client{Store: crasher{}, Guard: guard})
		require.Equal(t, 100, steady(t, b, 10*time.Second, nil))
		require.NotEqual(t, backoff.BreakerClosed, guard.State())
	})
}

func TestAStoreThatIsGoneIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory)}
		store.Cut()
		b := breaker(&fleet.Client{Store: store})
		require.Equal(t, 6000, steady(t, b, 10*time.Minute, nil))
		require.Less(t, store.Calls(), int64(40))
		calls := store.Calls()
		steady(t, b, 10*time.Minute, nil)
		require.Greater(t, store.Calls(), calls+10, "every 30 s, with a jitter, and looked for")
	})
}

// hung ignores its context.
type hung struct {
	fleet.Memory
	until chan struct{}
	held  atomic.Int32
}

func (h *hung) Load(context.Context, string) (fleet.Circuit, error) {
	h.held.Add(1)
	<-h.until
	return fleet.Circuit{}, errDown
}
func (h *hung) Trip(ctx context.Context, key string, _ fleet.Trip) (fleet.Circuit, error) {
	return h.Load(ctx, key)
}
func (h *hung) Lease(ctx context.Context, key, _ string, _ time.Duration) (fleet.Circuit, error) {
	return h.Load(ctx, key)
}

func TestAStoreThatHangsHoldsOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hung{until: make(chan struct{})}
		hub := &fleet.Client{Store: store}
		b := breaker(hub)
		require.Equal(t, 100, steady(t, b, 10*time.Second, nil))
		require.Equal(t, 3, call(t, b, 3, errDown))
		time.Sleep(5 * time.Second)
		require.Equal(t, 2, call(t, b, 2, nil), "it probes by its own rules")
		require.EqualValues(t, 1, store.held.Load())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, hub.Close(ctx), context.DeadlineExceeded)
		close(store.until)
		require.NoError(t, hub.Close(t.Context()))
	})
}

func TestAFirstCallMayWaitForWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		trip(t, store, time.Minute)
		slow := &faultyStore{Store: store, Delay: 20 * time.Millisecond}
		require.Equal(t, 1, call(t, breaker(&fleet.Client{Store: slow}), 1, nil), "without Wait it goes by what it knows")

		began := time.Now()
		require.Zero(t, call(t, breaker(fleet.Serverless(slow)), 1, nil))
		require.Equal(t, 20*time.Millisecond, time.Since(began))

		lost := &faultyStore{Store: store}
		lost.Cut()
		began = time.Now()
		b := breaker(fleet.Serverless(lost))
		require.Equal(t, 100, call(t, b, 100, nil))
		require.Equal(t, fleet.ServerlessWait, time.Since(began), "for the first call only")

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began = time.Now()
		_ = breaker(fleet.Serverless(lost)).Do(ctx, func(context.Context) error { return nil })
		require.Equal(t, 10*time.Millisecond, time.Since(began), "and not beyond its context")
		time.Sleep(time.Second) // for the store's calls to end
	})
}

// Of many processes that make one call each, one at a time probes.
func TestProcessesOfOneCallProbeOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory), Delay: 5 * time.Millisecond}
		trip(t, store.Store, time.Second)
		time.Sleep(time.Second)
		live := func(err error) (attempts int) {
			hub := fleet.Serverless(store)
			_ = backoff.Policy{}.Do(t.Context(), fleet.ServerlessBreaker("db", hub).Wrap(func(context.Context) error { attempts++; return err }))
			require.NoError(t, hub.Flush(t.Context()))
			return attempts
		}
		require.Equal(t, 1, live(errDown), "the probe failed, and the circuit is open again")
		for range 20 {
			require.Zero(t, live(errDown))
		}
		time.Sleep(13 * time.Second) // the second time, with jitter
		require.Equal(t, 1, live(nil))
		for range 20 {
			require.Equal(t, 1, live(nil), "one that succeeded closed it")
		}
	})
}

func TestCloseTellsWhatIsYetToBeToldAndGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		slow := &faultyStore{Store: store, Delay: 10 * time.Millisecond}
		hub := &fleet.Client{Store: slow, Quorum: -1}
		b := breaker(hub)
		call(t, b, 3, errDown)
		require.NoError(t, hub.Close(t.Context()))
		require.True(t, known(t, store).Tripped)
		require.NoError(t, hub.Close(t.Context()), "twice")

		calls := slow.Calls()
		time.Sleep(time.Minute)
		require.Equal(t, 100, call(t, b, 100, nil), "without a fleet it goes on")
		call(t, b, 3, errDown)
		time.Sleep(time.Minute)
		require.Equal(t, calls, slow.Calls())

		trip(t, store, time.Second)
		time.Sleep(2 * time.Second)
		second := &fleet.Client{Store: store, Wait: -1}
		b = breaker(second)
		call(t, b, 1, nil)
		synctest.Wait()
		require.Zero(t, call(t, b, 1, nil), "it asks for the lease, and does not wait for it")
		synctest.Wait()
		require.NotZero(t, known(t, store).Leased)
		require.NoError(t, second.Close(t.Context()))
		require.Zero(t, known(t, store).Leased)
		require.NoError(t, new(fleet.Client).Close(t.Context()), "unused")
		require.NoError(t, new(fleet.Client).Flush(t.Context()), "unused")
	})
}

// The keys may come from users of the program.
func TestAClientForgetsCircuitsThatNobodyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &fleet.Client{Store: new(fleet.Memory)}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 10_000 {
			b := breaker(hub)
			b.Name = strings.Repeat("x", 10_000) + time.Now().String()
			call(t, b, 1, nil)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(10<<20), "they were 100 MB")
		runtime.KeepAlive(hub)
	})
}

func TestAClientThatMakesNoSenseIsRefused(t *testing.T) {
	require.ErrorContains(t, (*fleet.Client)(nil).Validate(), "Client is nil")
	require.ErrorContains(t, breaker(nil).Validate(), "Breaker.Shared holds a nil pointer")
	for want, c := range map[string]*fleet.Client{
		"Client.Store is nil": {},
		"Client.Every is -1s": {Store: new(fleet.Memory), Every: -time.Second},
		"Breaker.FailureRate": {Store: new(fleet.Memory), Guard: &backoff.Breaker{FailureRate: 2}},
	} {
		require.ErrorContains(t, c.Validate(), want)
		called := 0
		err := breaker(c).Do(t.Context(), func(context.Context) error { called++; return nil })
		require.ErrorContains(t, err, want)
		require.Zero(t, called)
	}
}

// A Trip that comes up while another call of the store fails is sent all the
// same.
func TestAnOpeningIsToldThoughALookFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := new(fleet.Memory)
		store := &faultyStore{Store: memory, Delay: 10 * time.Millisecond, Fail: func(n int64) bool { return n == 2 }}
		b := breaker(&fleet.Client{Store: store, Quorum: -1})
		call(t, b, 1, nil)
		time.Sleep(2 * time.Second)
		call(t, b, 1, errDown) // looks
		synctest.Wait()
		call(t, b, 2, errDown)
		time.Sleep(time.Second)
		require.True(t, known(t, memory).Tripped)
	})
}

// A Trip cannot be sent while nothing is known; it is sent when the circuit
// opens next.
func TestAStoreThatFailsAtFirstHearsOfTheNextOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := new(fleet.Memory)
		store := &faultyStore{Store: memory, Fail: func(n int64) bool { return n <= 2 }}
		b := breaker(&fleet.Client{Store: store, Quorum: -1})
		call(t, b, 3, errDown)
		time.Sleep(7 * time.Second)
		require.Equal(t, 1, steady(t, b, time.Second, errDown))
		require.True(t, known(t, memory).Tripped)
	})
}

// A process that cannot reach the store works alone, and then joins the fleet
// again.
func TestAProcessThatWasCutOffHearsOfTheNextOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fleet.Memory)
		way := &faultyStore{Store: store}
		b := breaker(&fleet.Client{Store: way})
		b.MinCalls = 1_000_000 // with fewer it would soon go by its own calls
		steady(t, b, time.Second, nil)
		way.Cut()
		trip(t, store, 10*time.Second)
		require.Equal(t, 100, steady(t, b, 10*time.Second, nil), "it does not hear of the fleet")
		call(t, b, 3, errDown)
		require.Zero(t, call(t, b, 1, nil), "it opens its own circuit")
		time.Sleep(5 * time.Second)
		require.Equal(t, 2, call(t, b, 2, nil), "and probes by its own rules")
		way.Restore()
		steady(t, b, time.Minute, nil)
		trip(t, store, time.Minute)
		steady(t, b, 2*time.Second, nil)
		require.Equal(t, backoff.BreakerOpen, b.State())
	})
}

// The store is emptied during an outage, as by a failover.
func TestAFleetOpensAgainWhenTheStoreLosesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory)}
		all := []*backoff.Breaker{breaker(&fleet.Client{Store: store}), breaker(&fleet.Client{Store: store})}
		rounds(t, all, 10, errDown)
		require.True(t, known(t, store).Tripped)
		synctest.Wait()
		store.Store = new(fleet.Memory)
		require.LessOrEqual(t, rounds(t, all, 200, errDown), 3*len(all), "a few probes of each process")
		require.True(t, known(t, store).Tripped)
		rounds(t, all, 300, nil)
		require.False(t, known(t, store).Tripped)
		require.Equal(t, 2, rounds(t, all, 1, nil))
	})
}
