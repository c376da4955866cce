//go:build integration

package redisstore

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/contrib/fleet"
	"github.com/gobackoff/backoff/internal/faultproxy"
)

// eventually waits for what must happen, however busy the machine is.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, time.Minute, 10*time.Millisecond, what)
}

func circuitOf(t testing.TB, s fleet.Store) fleet.Circuit {
	c, err := s.Load(t.Context(), "service")
	require.NoError(t, err)
	return c
}

// The interval between two looks is a second and up to a fifth more. So there
// are at most as many round trips as seconds, and the first one.
func TestAHealthyFleetAsksOncePerSecondAndProcess(t *testing.T) {
	const processes = 6
	client, _ := private(t)
	s := serve(t)
	began := time.Now()
	f := launch(t, processes, task{Kind: "call", Store: client.Options().Addr, Service: s.addr})
	eventually(t, "all processes ask", func() bool { return scripts(t, client) >= processes })
	time.Sleep(3 * time.Second)
	n, seconds := scripts(t, client), time.Since(began).Seconds()
	calls := 0
	for _, r := range f.end(t) {
		require.Zero(t, r.Refused+r.Failed)
		calls += r.Good
	}
	t.Logf("%d calls, %d round trips of %d processes in %.1f s", calls, n, processes, seconds)
	require.LessOrEqual(t, float64(n), processes*(seconds+1))
	require.Greater(t, n, processes, "they ask again")
	require.Greater(t, calls, 100*processes)
}

// One per cent cannot be measured in a single run on a busy machine. A large
// difference shows in the median of 41 rounds. The number is logged.
func TestAHealthyFleetDoesNotSlowItsCalls(t *testing.T) {
	client, _ := private(t)
	r := launch(t, 1, task{Kind: "compare", Store: client.Options().Addr, Service: serve(t).addr}).end(t)[0]
	slices.Sort(r.Ratios)
	median := r.Ratios[len(r.Ratios)/2]
	t.Logf("with a fleet / without one: %.4f (of 41 rounds: %.3f to %.3f)", median, r.Ratios[0], r.Ratios[len(r.Ratios)-1])
	require.Less(t, median, 1.1)
}

// With a store that is slow, cut off or refusing, no call fails and no circuit
// opens. Then, without the store, the service fails and recovers: each process
// opens its own circuit, and closes it.
func TestCallsProceedOnLocalStateWhateverTheStoreDoes(t *testing.T) {
	client, store := private(t)
	s := serve(t)
	proxy, err := faultproxy.Start(client.Options().Addr, nil)
	require.NoError(t, err)
	defer proxy.Close()
	f := launch(t, 4, task{Kind: "call", Store: proxy.Addr(), Service: s.addr, Pause: time.Millisecond, Open: 300 * time.Millisecond})
	flows := func(what string) {
		before := s.calls.Load()
		time.Sleep(1200 * time.Millisecond)
		require.Greater(t, s.calls.Load(), before+40, "calls go on: %s", what)
	}
	eventually(t, "the processes start", func() bool { return s.calls.Load() > 400 })
	flows("healthy")
	proxy.SetPlan(faultproxy.Always(faultproxy.Stall(0, 0)))
	flows("slow")
	proxy.SetPlan(faultproxy.Always(faultproxy.Trickle(1, 20*time.Millisecond)))
	flows("trickling")
	proxy.SetPlan(faultproxy.Randomly(1, faultproxy.Share{Fault: faultproxy.Reset(), Probability: 0.5}))
	flows("flapping")
	proxy.Refuse()
	proxy.Cut()
	flows("gone")
	require.False(t, circuitOf(t, store).Tripped, "nothing has happened to the service")

	s.down.Store(true)
	quiet := func() bool {
		before := s.calls.Load()
		time.Sleep(100 * time.Millisecond)
		return s.calls.Load() < before+4*3
	}
	eventually(t, "all circuits open", quiet)
	require.False(t, circuitOf(t, store).Tripped, "nobody can tell")
	s.down.Store(false)
	for range 3 {
		flows("back, without a store")
	}
	require.NoError(t, proxy.Restore())
	proxy.SetPlan(nil)
	flows("with a store again")
	for _, r := range f.end(t) {
		require.Positive(t, r.Good)
		require.Positive(t, r.Refused)
		require.Less(t, r.Failed, 100)
	}
}

// Each probe of a dead service fails and opens the circuit under the next
// generation. So there are as many probes as generations.
func TestOneProcessOfTheFleetProbesPerLease(t *testing.T) {
	client, store := private(t)
	s := serve(t)
	s.takes.Store(int64(5 * time.Millisecond))
	f := launch(t, 8, task{Kind: "call", Store: client.Options().Addr, Service: s.addr, Pause: 2 * time.Millisecond,
		Open: 500 * time.Millisecond, Lease: 10 * time.Second, Timeout: 5 * time.Second})
	eventually(t, "the processes start", func() bool { return s.calls.Load() > 200 })
	s.down.Store(true)
	eventually(t, "the fleet opens", func() bool { return circuitOf(t, store).Open > 0 })
	time.Sleep(1300 * time.Millisecond) // all have heard
	s.together.Store(0)
	var calls int64
	var first fleet.Circuit
	eventually(t, "open", func() bool { // between two probes
		calls, first = s.calls.Load(), circuitOf(t, store)
		return first.Open > 100*time.Millisecond && s.calls.Load() == calls
	})
	time.Sleep(4 * time.Second)
	var probes, generations int64
	eventually(t, "open", func() bool {
		probes = s.calls.Load() - calls
		c := circuitOf(t, store)
		generations = int64(c.Generation - first.Generation)
		return c.Open > 100*time.Millisecond && s.calls.Load()-calls == probes
	})
	t.Logf("%d probes of 8 processes in 4 s", probes)
	require.Positive(t, probes)
	require.Equal(t, generations, probes)
	require.EqualValues(t, 1, s.together.Load(), "one at a time")

	s.down.Store(false)
	eventually(t, "the fleet closes", func() bool { return !circuitOf(t, store).Tripped })
	eventually(t, "all call again", func() bool { return s.together.Load() >= 3 })
	f.end(t)
}

func TestTheRetriesOfAFleetStayWithinItsAllowance(t *testing.T) {
	const processes, allowance, block, window = 50, 100, 2, 2 * time.Second
	client, _ := private(t)
	f := launch(t, processes, task{Kind: "retry", Store: client.Options().Addr, Pause: 20 * time.Millisecond, Timeout: 5 * time.Second,
		Allowance: allowance, Window: window, Block: block})
	eventually(t, "all processes ask", func() bool { return scripts(t, client) >= processes })
	time.Sleep(3 * window)
	var retries []time.Time
	asked := 0
	for _, r := range f.end(t) {
		retries = append(retries, r.Retries...)
		asked += r.Asked
	}
	slices.SortFunc(retries, time.Time.Compare)
	most := 0
	for i, j := 0, 0; j < len(retries); j++ {
		for retries[j].Sub(retries[i]) > window-100*time.Millisecond { // a retry may be noted late
			i++
		}
		most = max(most, j-i+1)
	}
	t.Logf("%d retries of %d that were wanted; at most %d in any %v", len(retries), asked, most, window)
	require.LessOrEqual(t, most, allowance+processes*block)
	require.Greater(t, len(retries), allowance, "there are some")
	require.Greater(t, asked, 5*len(retries), "many more were wanted")
}

func TestTheTokensOfAProcessThatIsKilledComeBack(t *testing.T) {
	client, store := private(t)
	const allowance, window = 20, 2 * time.Second
	claim := fleet.Claim{Block: "mine", Tokens: allowance, Allowance: allowance, Window: window}
	began := time.Now()
	f := launch(t, 1, task{Kind: "retry", Store: client.Options().Addr, Pause: 20 * time.Millisecond, Timeout: 5 * time.Second,
		Allowance: allowance, Window: window, Block: allowance})
	eventually(t, "it takes tokens", func() bool { return client.Exists(t.Context(), "backoff:{service}:blocks").Val() == 1 })
	require.NoError(t, f[0].cmd.Process.Kill())
	if n, err := store.Take(t.Context(), "service", claim); time.Since(began) < window {
		require.NoError(t, err)
		require.Zero(t, n, "the dead have them")
	}
	eventually(t, "they come back", func() bool {
		claim.Block = strconv.Itoa(int(time.Since(began)))
		n, err := store.Take(t.Context(), "service", claim)
		require.NoError(t, err)
		return n == allowance
	})
}

// The process that probes is killed before it has an answer.
func TestTheLeaseOfAProcessThatIsKilledComesBack(t *testing.T) {
	client, store := private(t)
	s := serve(t)
	s.down.Store(true)
	job := task{Kind: "call", Store: client.Options().Addr, Service: s.addr, Pause: 5 * time.Millisecond,
		Open: 300 * time.Millisecond, Lease: 2 * time.Second}
	f := launch(t, 2, job)
	eventually(t, "the fleet opens", func() bool { return circuitOf(t, store).Open > 0 })
	s.mute.Store(true)
	eventually(t, "one probes", func() bool { return circuitOf(t, store).Leased > 0 })
	for _, p := range f { // whichever it is
		require.NoError(t, p.cmd.Process.Kill())
	}
	s.mute.Store(false)
	s.down.Store(false)
	began := time.Now()
	left := circuitOf(t, store).Leased
	next := launch(t, 2, job)
	eventually(t, "another one probes", func() bool { return !circuitOf(t, store).Tripped })
	require.GreaterOrEqual(t, time.Since(began), left-100*time.Millisecond, "not before the lease is over")
	next.end(t)
}

// FLUSHALL during an outage: the fleet opens again within one open time, at the
// price of a few calls per process, and closes when the service is back.
func TestAFleetHealsWhenTheStoreLosesEverything(t *testing.T) {
	const processes, open = 6, time.Second
	client, store := private(t)
	s := serve(t)
	f := launch(t, processes, task{Kind: "call", Store: client.Options().Addr, Service: s.addr, Pause: 2 * time.Millisecond, Open: open})
	eventually(t, "the processes start", func() bool { return s.calls.Load() > 200 })
	s.down.Store(true)
	eventually(t, "the fleet opens", func() bool { return circuitOf(t, store).Open > 0 })
	time.Sleep(2 * open)
	calls := s.calls.Load()
	require.NoError(t, client.FlushAll(t.Context()).Err())
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	began := time.Now()
	eventually(t, "the fleet is open again", func() bool { return circuitOf(t, store).Open > 0 })
	took, cost := time.Since(began), s.calls.Load()-calls
	t.Logf("open again after %v, at the price of %d calls of %d processes", took, cost, processes)
	require.LessOrEqual(t, cost, int64(processes*3))
	require.Less(t, took, 3*open, "one open time, its jitter, and a busy machine")
	s.down.Store(false)
	back := time.Now()
	eventually(t, "the fleet closes", func() bool { return !circuitOf(t, store).Tripped })
	t.Log("closed after", time.Since(back))
	before := s.calls.Load()
	eventually(t, "and calls", func() bool { return s.calls.Load() > before+processes*20 })
	for _, r := range f.end(t) {
		require.Positive(t, r.Refused)
	}
}
