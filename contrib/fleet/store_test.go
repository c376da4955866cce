package fleet_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

// testStore checks that open returns a fleet.Store that keeps its contract. open
// is called for each check, and may return the same store each time, since the
// keys are random. The checks run in parallel, in real time, for a few seconds.
func testStore(t *testing.T, open func(testing.TB) fleet.Store) {
	t.Helper()
	for _, c := range storeChecks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(newProbe(t, open(t)))
		})
	}
}

// storeChecks are what a store promises.
var storeChecks = []struct {
	name  string
	check func(probe)
}{
	{"nothing is known of a new key", nothingIsKnown},
	{"a quorum opens the circuit", aQuorumOpens},
	{"a voter has one vote", aVoterHasOneVote},
	{"a vote ends with its time", aVoteEnds},
	{"an outdated trip changes nothing", outdatedTripsChangeNothing},
	{"an open circuit becomes half-open", openBecomesHalfOpen},
	{"many trips are one opening", manyTripsAreOneOpening},
	{"a half-open circuit has one lease", oneLease},
	{"a lease ends with its time", aLeaseEnds},
	{"a lease can be given back", aLeaseCanBeGivenBack},
	{"there is no lease of what is not half-open", noLeaseElsewhere},
	{"the holder of the lease opens it again", theHolderOpensAgain},
	{"the holder of the lease closes it", theHolderCloses},
	{"nobody else closes it", nobodyElseCloses},
	{"tokens are granted up to the allowance", tokensAreBounded},
	{"tokens come back when their time is over", tokensComeBack},
	{"tokens can be given back", tokensCanBeGivenBack},
	{"a block that was given back ends", aBlockGivenBackEnds},
	{"a repeated claim is one", aRepeatedClaimIsOne},
	{"keys are independent", keysAreIndependent},
	{"a call ends with its context", callsEndWithTheirContext},
}

const (
	long  = time.Minute            // does not end during a check
	short = 300 * time.Millisecond // ends during a check
	tick  = 5 * time.Millisecond   // between two looks
	limit = 20 * time.Second       // until what is expected must have happened
)

// probe is a store and a key, and the test that uses them.
type probe struct {
	testing.TB
	store fleet.Store
	key   string
}

// newProbe returns a probe with a new key.
func newProbe(t testing.TB, s fleet.Store) probe { return probe{t, s, "test-" + rand.Text()} }

// want fails the test unless ok.
func (p probe) want(ok bool, format string, args ...any) {
	p.Helper()
	if !ok {
		p.Fatalf(format, args...)
	}
}

// ok returns c, and fails the test if there is an error.
func (p probe) ok(c fleet.Circuit, err error) fleet.Circuit {
	p.Helper()
	p.want(err == nil, "unexpected error: %v", err)
	return c
}

// load loads the circuit.
func (p probe) load() fleet.Circuit {
	p.Helper()
	return p.ok(p.store.Load(p.Context(), p.key))
}

// trip is one of two votes for opening.
func (p probe) trip(by string, seen uint64, open time.Duration) fleet.Circuit {
	p.Helper()
	return p.ok(p.store.Trip(p.Context(), p.key, fleet.Trip{By: by, Voter: by, Seen: seen, Open: open, Openings: 1, Quorum: 2}))
}

// lease asks for the lease.
func (p probe) lease(by string, d time.Duration) fleet.Circuit {
	p.Helper()
	return p.ok(p.store.Lease(p.Context(), p.key, by, d))
}

// reset closes the circuit.
func (p probe) reset(by string, generation uint64) fleet.Circuit {
	p.Helper()
	return p.ok(p.store.Reset(p.Context(), p.key, by, generation))
}

// take claims tokens.
func (p probe) take(block string, n, allowance int, window time.Duration) int {
	p.Helper()
	got, err := p.store.Take(p.Context(), p.key, fleet.Claim{Block: block, Tokens: n, Allowance: allowance, Window: window})
	p.want(err == nil, "unexpected error: %v", err)
	return got
}

// opened lets two processes open the circuit, and returns it.
func (p probe) opened(d time.Duration) fleet.Circuit {
	p.Helper()
	p.trip("a", 0, long)
	c := p.trip("b", 0, d)
	p.want(c.Tripped && c.Generation == 1, "two votes of two did not open the circuit: %+v", c)
	return c
}

// halfOpened opens the circuit, waits, and returns it half-open.
func (p probe) halfOpened() fleet.Circuit {
	p.Helper()
	p.opened(short)
	return p.waitHalfOpen()
}

// waitHalfOpen waits until the circuit is half-open.
func (p probe) waitHalfOpen() (c fleet.Circuit) {
	p.Helper()
	p.eventually("the half-open state", func() bool { c = p.load(); return c.State() == backoff.BreakerHalfOpen })
	return c
}

// eventually waits until is reports true.
func (p probe) eventually(what string, is func() bool) {
	p.Helper()
	for began := time.Now(); !is(); time.Sleep(tick) {
		p.want(time.Since(began) < limit, "%s did not happen within %v", what, limit)
	}
}

// near reports whether d may be what is left of whole. A store may round up.
func near(d, whole time.Duration) bool { return d > 0 && d <= whole+2*time.Millisecond }

func nothingIsKnown(p probe) {
	c := p.load()
	p.want(c == fleet.Circuit{}, "want the zero Circuit, got %+v", c)
}

func aQuorumOpens(p probe) {
	c := p.trip("a", 0, long)
	p.want(!c.Tripped && c.Generation == 0, "one vote of two opened the circuit: %+v", c)
	c = p.ok(p.store.Trip(p.Context(), p.key, fleet.Trip{By: "b", Voter: "b", Open: long, Openings: 7, Quorum: 2}))
	for _, c := range []fleet.Circuit{c, p.load()} {
		p.want(c.State() == backoff.BreakerOpen && near(c.Open, long), "want it open for nearly %v, got %+v", long, c)
		p.want(c.Generation == 1 && c.Openings == 7, "want generation 1 and 7 openings, got %+v", c)
		p.want(c.Leased == 0 && !c.Mine, "an open circuit has no lease: %+v", c)
	}
	alone := newProbe(p.TB, p.store)
	c = alone.ok(p.store.Trip(p.Context(), alone.key, fleet.Trip{By: "a", Voter: "a", Open: long}))
	p.want(c.Tripped, "a quorum below 1 is 1: %+v", c)
}

func aVoterHasOneVote(p probe) {
	for i := range 3 {
		by := strconv.Itoa(i)
		c := p.ok(p.store.Trip(p.Context(), p.key, fleet.Trip{By: by, Voter: "host", Open: long, Quorum: 2}))
		p.want(!c.Tripped, "one voter opened the circuit by itself: %+v", c)
	}
}

func aVoteEnds(p probe) {
	p.trip("a", 0, short)
	time.Sleep(short + 50*time.Millisecond)
	c := p.trip("b", 0, long)
	p.want(!c.Tripped, "a vote counted after its time: %+v", c)
	c = p.trip("c", 0, long)
	p.want(c.Tripped, "two votes in time did not open the circuit: %+v", c)
}

func outdatedTripsChangeNothing(p probe) {
	open := p.opened(short)
	c := p.trip("c", open.Generation, long)
	p.want(c.Generation == open.Generation && near(c.Open, short) || c.Open == 0, "an open circuit was opened: %+v", c)
	p.waitHalfOpen()
	for _, by := range []string{"c", "d", "e"} {
		c = p.trip(by, open.Generation-1, long)
		p.want(c.Generation == open.Generation && c.Open == 0, "a process that has not seen the generation opened the circuit: %+v", c)
	}
	p.trip("c", open.Generation+5, long)
	c = p.trip("d", open.Generation+5, long)
	p.want(c.Generation == open.Generation+6 && near(c.Open, long), "want one more than the newest generation seen, got %+v", c)
}

func openBecomesHalfOpen(p probe) {
	began := time.Now()
	c := p.halfOpened()
	p.want(time.Since(began) >= short-time.Millisecond, "half-open too early, after %v", time.Since(began))
	p.want(c.Generation == 1 && c.Leased == 0, "want it as it was, got %+v", c)
}

func manyTripsAreOneOpening(p probe) {
	concurrently(p, 50, func(i int) (fleet.Circuit, error) {
		by := strconv.Itoa(i)
		return p.store.Trip(p.Context(), p.key, fleet.Trip{By: by, Voter: by, Open: long, Openings: 1, Quorum: 3})
	})
	c := p.load()
	p.want(c.Tripped && c.Generation == 1, "want one opening, got %+v", c)
}

func oneLease(p probe) {
	p.halfOpened()
	holder, holders := "", 0
	for i, c := range concurrently(p, 50, func(i int) (fleet.Circuit, error) {
		return p.store.Lease(p.Context(), p.key, strconv.Itoa(i), long)
	}) {
		if c.Mine {
			holder = strconv.Itoa(i)
			holders++
		}
	}
	p.want(holders == 1, "%d hold the lease, want 1", holders)
	c := p.lease("another", long)
	p.want(!c.Mine && near(c.Leased, long), "want to hear that it is held for nearly %v, got %+v", long, c)
	c = p.lease(holder, long)
	p.want(c.Mine && near(c.Leased, long), "the holder of the lease may ask again, got %+v", c)
	c = p.load()
	p.want(!c.Mine && near(c.Leased, long), "Load must say that the lease is held, got %+v", c)
}

func aLeaseEnds(p probe) {
	p.halfOpened()
	began := time.Now()
	p.want(p.lease("a", short).Mine, "a half-open circuit refused its lease")
	p.eventually("the end of the lease of a process that died", func() bool { return p.lease("b", long).Mine })
	p.want(time.Since(began) >= short-time.Millisecond, "the lease was given away early, after %v", time.Since(began))
	c := p.reset("a", 1)
	p.want(c.Tripped, "a lease that is over closed the circuit: %+v", c)
}

func aLeaseCanBeGivenBack(p probe) {
	p.halfOpened()
	p.lease("a", long)
	c := p.lease("b", -1)
	p.want(c.Leased > 0, "a process gave back a lease that it did not hold: %+v", c)
	c = p.lease("a", 0)
	p.want(!c.Mine && c.Leased == 0, "it was not given back: %+v", c)
	p.want(p.lease("b", long).Mine, "a lease that was given back is free")
}

func noLeaseElsewhere(p probe) {
	c := p.lease("a", long)
	p.want(c == fleet.Circuit{}, "a lease of nothing: %+v", c)
	p.opened(long)
	c = p.lease("a", long)
	p.want(!c.Mine && c.Leased == 0 && c.Open > 0, "a lease of an open circuit: %+v", c)
}

func theHolderOpensAgain(p probe) {
	p.halfOpened()
	p.lease("a", long)
	c := p.trip("b", 1, long)
	p.want(c.Generation == 1 && c.State() == backoff.BreakerHalfOpen, "one vote of two opened the circuit: %+v", c)
	c = p.ok(p.store.Trip(p.Context(), p.key, fleet.Trip{By: "a", Voter: "host", Seen: 1, Open: long, Openings: 2, Quorum: 100}))
	p.want(c.Generation == 2 && near(c.Open, long) && c.Openings == 2, "the holder of the lease needs no quorum: %+v", c)
	p.want(c.Leased == 0 && !c.Mine, "the lease was not ended: %+v", c)
}

func theHolderCloses(p probe) {
	p.halfOpened()
	p.lease("a", long)
	c := p.reset("a", 1)
	p.want(c == fleet.Circuit{Generation: 2}, "want a closed circuit of generation 2, got %+v", c)
	p.want(p.load() == c, "want it to be known, got %+v", p.load())
	c = p.trip("b", 2, long)
	p.want(!c.Tripped, "votes from before the opening count after it: %+v", c)
	c = p.trip("c", 2, long)
	p.want(c.Tripped && c.Generation == 3, "want it open again, got %+v", c)
}

func nobodyElseCloses(p probe) {
	c := p.reset("a", 0)
	p.want(c == fleet.Circuit{}, "nothing was closed: %+v", c)
	p.halfOpened()
	p.want(p.reset("a", 1).Tripped, "closed without a lease")
	p.lease("a", long)
	p.want(p.reset("b", 1).Tripped, "closed by a process that does not hold the lease")
	p.want(p.reset("a", 0).Tripped, "closed by a process that has not seen the generation")
	p.want(p.reset("a", 2).Tripped, "closed by a process that has seen another generation")
}

func tokensAreBounded(p probe) {
	p.want(p.take("x", 0, 100, long) == 0 && p.take("y", -5, 100, long) == 0, "granted what was not asked for")
	total := 0
	for _, n := range concurrently(p, 50, func(i int) (int, error) {
		claim := fleet.Claim{Block: strconv.Itoa(i), Tokens: 7, Allowance: 100, Window: long}
		return p.store.Take(p.Context(), p.key, claim)
	}) {
		total += n
	}
	p.want(total == 100, "granted %d of an allowance of 100, asked for 350", total)
	p.want(p.take("more", 1, 101, long) == 1, "a larger allowance has room")
	p.want(p.take("less", 1, 50, long) == 0, "a smaller one has not")
}

func tokensComeBack(p probe) {
	began := time.Now()
	p.want(p.take("crashed", 10, 10, short) == 10, "all are to be had")
	n := 0
	p.eventually("the end of the tokens", func() bool { n = p.take(rand.Text(), 10, 10, short); return n > 0 })
	p.want(n == 10, "all or none of a block come back, got %d", n)
	p.want(time.Since(began) >= short-time.Millisecond, "tokens came back early, after %v", time.Since(began))
}

func tokensCanBeGivenBack(p probe) {
	give := func(block string, n int) {
		p.want(p.store.Give(p.Context(), p.key, block, n) == nil, "unexpected error")
	}
	give("nothing", 5)
	p.take("a", 10, 10, long)
	give("a", 4)
	give("b", 4)
	give("a", -4)
	give("a", 0)
	p.want(p.take("b", 10, 10, long) == 4, "want the 4 that were given back")
	give("a", 100)
	p.want(p.take("c", 10, 10, long) == 6, "want the 6 that the block had left, and no more")
}

// aBlockGivenBackEnds checks that an empty block leaves nothing behind: a
// process took a block, spent nothing, and ended.
func aBlockGivenBackEnds(p probe) {
	p.take("a", 10, 10, short)
	p.want(p.store.Give(p.Context(), p.key, "a", 10) == nil, "unexpected error")
	p.want(p.take("b", 10, 10, long) == 10, "want those that were given back")
	for began := time.Now(); time.Since(began) < 2*short; time.Sleep(tick) {
		p.want(p.take("c", 10, 10, long) == 0, "granted again what others hold")
	}
}

func aRepeatedClaimIsOne(p probe) {
	p.want(p.take("a", 10, 100, long) == 10, "all are to be had")
	p.want(p.take("a", 10, 100, long) == 10, "want the same answer")
	p.want(p.take("b", 100, 100, long) == 90, "a repeated claim was counted twice")
	p.want(p.take("a", 10, 100, long) == 10, "want the same answer, though nothing is left")
}

func keysAreIndependent(p probe) {
	p.opened(long)
	p.want(p.take("a", 10, 10, long) == 10, "tokens do not depend on circuits")
	for _, key := range []string{p.key + "x", p.key + "}", "{" + p.key + "}", p.key + ":c", p.key + "%", "ключ " + p.key, p.key + "\x00'\"\\ \n"} {
		other := probe{p.TB, p.store, key}
		c := other.load()
		p.want(c == fleet.Circuit{}, "key %q knows what %q does: %+v", key, p.key, c)
		p.want(other.opened(long).Generation == 1, "key %q", key)
		p.want(other.take("a", 10, 10, long) == 10, "key %q has spent what %q did", key, p.key)
	}
}

func callsEndWithTheirContext(p probe) {
	ctx, cancel := context.WithCancel(p.Context())
	cancel()
	calls := map[string]func() error{
		"Load":  func() error { _, err := p.store.Load(ctx, p.key); return err },
		"Trip":  func() error { _, err := p.store.Trip(ctx, p.key, fleet.Trip{By: "a", Open: long}); return err },
		"Lease": func() error { _, err := p.store.Lease(ctx, p.key, "a", long); return err },
		"Reset": func() error { _, err := p.store.Reset(ctx, p.key, "a", 1); return err },
		"Take": func() error {
			_, err := p.store.Take(ctx, p.key, fleet.Claim{Block: "a", Tokens: 1, Allowance: 1, Window: long})
			return err
		},
		"Give": func() error { return p.store.Give(ctx, p.key, "a", 1) },
	}
	for name, call := range calls {
		p.want(call() != nil, "%s went on after its context had ended", name)
	}
}

// concurrently calls f n times at once, and returns its results.
func concurrently[T any](p probe, n int, f func(i int) (T, error)) []T {
	p.Helper()
	results, errs := make([]T, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { results[i], errs[i] = f(i) })
	}
	group.Wait()
	p.want(errors.Join(errs...) == nil, "unexpected error: %v", errors.Join(errs...))
	return results
}

// recorder is a test that must fail.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestMemoryIsAStore(t *testing.T) {
	for _, c := range storeChecks {
		bubble(t, c.name, func(t *testing.T) { c.check(newProbe(t, new(fleet.Memory))) })
	}
}

// mutant is a store with a fault.
type mutant struct {
	fleet.Memory
	fault string
	seen  int
	ends  time.Time // of the last block that was given back
}

func (m *mutant) Load(ctx context.Context, key string) (fleet.Circuit, error) {
	if m.fault == "no context" {
		ctx = context.Background()
	}
	if m.fault == "one key" {
		key = "all"
	}
	return m.Memory.Load(ctx, key)
}

func (m *mutant) Trip(ctx context.Context, key string, t fleet.Trip) (c fleet.Circuit, err error) {
	switch m.fault {
	case "no quorum":
		t.Quorum = 1
	case "votes by process":
		t.Voter = t.By
	case "votes for ever":
		if c, err = m.Memory.Trip(ctx, key, t); !c.Tripped {
			t.Open = time.Hour
			return m.Memory.Trip(ctx, key, t)
		}
		return c, err
	case "no generations":
		t.Seen = max(t.Seen, 1<<20)
	case "holder needs quorum":
		t.By = "nobody"
	case "one key":
		key = "all"
	}
	return m.Memory.Trip(ctx, key, t)
}

func (m *mutant) Lease(ctx context.Context, key, by string, d time.Duration) (fleet.Circuit, error) {
	switch m.fault {
	case "lease for all":
		c, err := m.Memory.Lease(ctx, key, by, d)
		c.Mine = c.State() == backoff.BreakerHalfOpen && c.Tripped
		return c, err
	case "lease for ever":
		d *= 1000
	case "lease kept":
		if d <= 0 {
			d = time.Minute
		}
	case "lease of anything":
		c, err := m.Memory.Lease(ctx, key, by, d)
		c.Mine = true
		return c, err
	}
	return m.Memory.Lease(ctx, key, by, d)
}

func (m *mutant) Reset(ctx context.Context, key, by string, generation uint64) (fleet.Circuit, error) {
	switch m.fault {
	case "never closes":
		return m.Memory.Load(ctx, key)
	case "anybody closes":
		_, _ = m.Memory.Lease(ctx, key, by, time.Second)
	}
	return m.Memory.Reset(ctx, key, by, generation)
}

func (m *mutant) Take(ctx context.Context, key string, c fleet.Claim) (int, error) {
	switch m.fault {
	case "grants all":
		return max(0, c.Tokens), nil
	case "tokens for ever":
		c.Window *= 1000
	case "claims add up":
		m.seen++
		c.Block += strconv.Itoa(m.seen)
	case "fails after a gift":
		if !m.ends.IsZero() && time.Now().After(m.ends) {
			return 0, errors.New("not a number")
		}
	}
	return m.Memory.Take(ctx, key, c)
}

func (m *mutant) Give(ctx context.Context, key, block string, n int) error {
	if m.fault == "keeps tokens" {
		return ctx.Err()
	}
	m.ends = time.Now().Add(short)
	return m.Memory.Give(ctx, key, block, n)
}

// Each fault is found by the check that is meant for it.
func TestAStoresFaultsAreFound(t *testing.T) {
	for fault, check := range map[string]func(probe){
		"no context":          callsEndWithTheirContext,
		"one key":             keysAreIndependent,
		"no quorum":           aQuorumOpens,
		"votes by process":    aVoterHasOneVote,
		"votes for ever":      aVoteEnds,
		"no generations":      outdatedTripsChangeNothing,
		"holder needs quorum": theHolderOpensAgain,
		"lease for all":       oneLease,
		"lease for ever":      aLeaseEnds,
		"lease kept":          aLeaseCanBeGivenBack,
		"lease of anything":   noLeaseElsewhere,
		"never closes":        theHolderCloses,
		"anybody closes":      nobodyElseCloses,
		"grants all":          tokensAreBounded,
		"tokens for ever":     tokensComeBack,
		"claims add up":       aRepeatedClaimIsOne,
		"keeps tokens":        tokensCanBeGivenBack,
		"fails after a gift":  aBlockGivenBackEnds,
	} {
		bubble(t, fault, func(t *testing.T) {
			r := &recorder{TB: t}
			var group sync.WaitGroup
			group.Go(func() { check(newProbe(r, &mutant{fault: fault})) })
			group.Wait()
			require.NotEmpty(t, r.said)
		})
	}
}
