package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// account compares the counts of the caller, the service and the network.
func (r *rig) account(t *testing.T) {
	r.report(t)
	r.adverse.report(t)
	r.everyCallEndedAsItMay(t)
	r.theObserverWasToldOfAll(t)
	r.theServiceAgrees(t)
}

func (r *rig) report(t *testing.T) {
	h := r.client.hedge.Stats()
	t.Logf("%d calls: %v", r.calls, r.tally)
	t.Logf("%d attempts, %d of them hedges; %d exchanges on %d connections, of which %d failed; %d requests arrived",
		r.client.base.attempts.Load(), h.Hedges, r.network.exchanges.Load(), r.network.Connections(), r.network.failed.Load(), r.service.requests.Load())
	t.Logf("%d calls carried out, %d of them repeatedly, %d without the caller's knowing",
		r.service.done.count(), r.service.twice.count(), r.service.done.without(r.tally.confirmed))
	t.Logf("circuit opened %d times; %d bodies; at most %d goroutines",
		r.tally.openings.Load(), r.client.base.opened.Load(), r.tally.peak.Load())
}

// usual are the outcomes that must each occur, or else the soak has not tried
// the whole library. inOutages are those of outages; which of them occur
// depends on the machine. A hedged call may also meet its deadline.
var (
	usual = []outcome{
		answered, backoff.ReasonPermanent, backoff.ReasonRetryAfter, backoff.ReasonNotIdempotent, backoff.ReasonOverloaded,
	}
	inOutages = []outcome{backoff.ReasonAttempts, backoff.ReasonBudget, backoff.ReasonOpen}
)

func (r *rig) everyCallEndedAsItMay(t *testing.T) {
	all := r.tally.outcomes[backoff.ReasonDeadline].Load()
	for _, end := range usual {
		n := r.tally.outcomes[end].Load()
		require.Positive(t, n, "%v", end)
		all += n
	}
	var outages int64
	for _, end := range inOutages {
		outages += r.tally.outcomes[end].Load()
	}
	if err := r.tally.surprise.Load(); err != nil {
		require.NoError(t, *err)
	}
	require.Positive(t, outages)
	require.EqualValues(t, r.calls, all+outages, "calls that ended so, each once")
	require.Greater(t, r.tally.outcomes[answered].Load(), int64(r.calls)/2)
}

// A call that the breaker of the host refuses does not reach the policy. The
// observer gets its end all the same, and also that of each turn of a call that waits.
func (r *rig) theObserverWasToldOfAll(t *testing.T) {
	e, ends := &r.tally.events, &r.tally.outcomes
	require.Equal(t, r.client.base.attempts.Load(), r.tally.attempts.Load(), "attempts")
	require.Equal(t, ends[answered].Load(), e[backoff.EventSuccess].Load(), "successes")
	require.GreaterOrEqual(t, e[backoff.EventSuccess].Load()+e[backoff.EventGiveUp].Load(), int64(r.calls))
}

func (r *rig) theServiceAgrees(t *testing.T) {
	done := r.service.done
	require.Zero(t, r.tally.confirmed.without(done), "calls that were confirmed, and not carried out")
	require.Zero(t, r.tally.unsent.with(done), "calls that were refused before they were sent, and carried out")
	require.Positive(t, done.without(r.tally.confirmed), "no answer was lost")
	require.Equal(t, r.network.exchanges.Load()-r.network.stopped.Load(), r.service.requests.Load(), "requests")
	for n := range r.calls {
		if k := kindOf(n); k == keyed || k == single {
			require.False(t, r.service.twice.has(n), "call %d was carried out twice", n)
		}
	}
	require.Positive(t, r.service.twice.count(), "nothing was sent again after it had been carried out")
}

// An outcome is how a call ended for its caller. The first ones are the
// library's reasons for giving up.
type outcome = backoff.Reason

const (
	answered = outcome(0)
	unknown  = backoff.ReasonInvalid + 1 // nothing that a caller could understand
)

// tally counts the outcomes of calls and the events of the observer.
type tally struct {
	confirmed ledger // calls that were answered
	unsent    ledger // calls that were refused before anything was sent

	outcomes [unknown + 1]atomic.Int64
	surprise atomic.Pointer[error] // the last error that a caller could not understand

	events   [backoff.EventTransition + 1]atomic.Int64
	attempts atomic.Int64 // that the observer was told of
	openings atomic.Int64
	peak     atomic.Int64 // of goroutines
}

func newTally(calls int) *tally {
	return &tally{confirmed: newLedger(calls), unsent: newLedger(calls)}
}

// ended counts a call. If the breaker refused it, the caller waits for as long
// as the error says.
func (t *tally) ended(call int, err error) {
	what := outcomeOf(err, call)
	t.outcomes[what].Add(1)
	switch {
	case what == answered:
		t.confirmed.add(call)
	case what == unknown:
		t.surprise.Store(&err)
	}
	if wait, open := refused(err); open {
		t.unsent.add(call)
		time.Sleep(max(wait, time.Millisecond)) // how long a probe takes is not known
	}
	if call%64 == 0 {
		t.sample()
	}
}

func outcomeOf(err error, call int) outcome {
	if err == nil {
		return answered
	}
	if _, open := refused(err); open {
		return backoff.ReasonOpen
	}
	if e, ok := errors.AsType[*backoff.Error](err); ok {
		return e.Reason
	}
	if e, ok := errors.AsType[*backoffhttp.StatusError](err); ok && e.Code == http.StatusNotFound && missing(call) {
		return backoff.ReasonPermanent
	}
	return unknown
}

func (t *tally) sample() {
	for now, old := int64(runtime.NumGoroutine()), t.peak.Load(); now > old; old = t.peak.Load() {
		if t.peak.CompareAndSwap(old, now) {
			return
		}
	}
}

// observe is the Observer of all calls.
func (t *tally) observe(_ context.Context, e backoff.Event) {
	t.events[e.Kind].Add(1)
	switch e.Kind {
	case backoff.EventRetry, backoff.EventSuccess, backoff.EventHedgeWon, backoff.EventHedgeLost:
		t.attempts.Add(1)
	case backoff.EventGiveUp:
		if e.Attempt > 0 && !e.Waiting {
			t.attempts.Add(1)
		}
	case backoff.EventTransition:
		if e.Transition.To == backoff.BreakerOpen {
			t.openings.Add(1)
		}
	}
}

// service has a budget with a short memory, which an outage uses up, and a breaker that
// opens during one.
func (t *tally) service(host string) *guard.Service {
	return &guard.Service{
		Budget: &backoff.RetryBudget{Window: 100 * time.Millisecond},
		Breaker: &backoff.Breaker{
			Name: host, Window: 100 * time.Millisecond, ConsecutiveFailures: 20, ConsecutiveSpan: -1,
			OpenFor: backoff.Constant(3 * time.Millisecond), MaxRetryAfter: 3 * time.Millisecond, Observer: t.observe,
		},
	}
}

func (t *tally) String() string {
	var b strings.Builder
	for what := range t.outcomes {
		if n := t.outcomes[what].Load(); n > 0 {
			fmt.Fprintf(&b, ", %d %s", n, nameOf(outcome(what)))
		}
	}
	return strings.TrimPrefix(b.String(), ", ")
}

func nameOf(what outcome) string {
	if what == unknown {
		return "unknown"
	}
	return what.String()
}

// A ledger is a set of calls, by number, of one bit each. It is allocated in
// full at the beginning, so that it does not grow during a run.
type ledger []atomic.Uint64

func newLedger(calls int) ledger { return make(ledger, (calls+63)/64) }

// add adds a call, and reports whether it was in the set already.
func (l ledger) add(n int) bool {
	bit := uint64(1) << (n % 64)
	return l[n/64].Or(bit)&bit != 0
}

func (l ledger) count() (n int) {
	for i := range l {
		n += bits.OnesCount64(l[i].Load())
	}
	return n
}

// without counts the calls that are in l and not in other.
func (l ledger) without(other ledger) (n int) {
	for i := range l {
		n += bits.OnesCount64(l[i].Load() &^ other[i].Load())
	}
	return n
}

// with counts the calls that are in both.
func (l ledger) with(other ledger) int { return l.count() - l.without(other) }

func (l ledger) has(n int) bool { return l[n/64].Load()&(1<<(n%64)) != 0 }

// A reading is the memory, goroutines and descriptors that the process holds.
type reading struct {
	live       int64 // bytes of the heap that are in use after a collection
	spans      int64 // bytes of the heap that hold any of them
	goroutines int
	files      int // descriptors, on Linux
}

func read() reading {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of in the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return reading{int64(m.HeapAlloc), int64(m.HeapInuse), runtime.NumGoroutine(), files()}
}

// files counts file descriptors, where the system lists them.
func files() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

func (r reading) String() string {
	return fmt.Sprintf("heap %.2f MiB live, %.2f MiB in use; %d goroutines, %d descriptors",
		mib(r.live), mib(r.spans), r.goroutines, r.files)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// A meter is a RoundTripper that counts attempts and open bodies.
type meter struct {
	*http.Transport
	attempts atomic.Int64
	opened   atomic.Int64 // bodies
	closed   atomic.Int64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.attempts.Add(1)
	resp, err := m.Transport.RoundTrip(req)
	if err == nil {
		m.opened.Add(1)
		resp.Body = &metered{ReadCloser: resp.Body, m: m}
	}
	return resp, err
}

// A metered is a body that counts its first Close.
type metered struct {
	io.ReadCloser
	m    *meter
	once sync.Once
}

func (b *metered) Close() error {
	b.once.Do(func() { b.m.closed.Add(1) })
	return b.ReadCloser.Close()
}
