package soak

import (
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/stretchr/testify/require"
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
	s, h := r.network.Stats(), r.client.hedge.Stats()
	t.Logf("%d calls: %v", r.calls, r.tally)
	t.Logf("%d attempts, %d of them hedges; %d exchanges on %d connections, of which %d failed; %d requests arrived",
		r.client.base.attempts.Load(), h.Hedges, s.Exchanges, s.Connections, s.Faults, r.service.requests.Load())
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
// observer gets its end all the same.
func (r *rig) theObserverWasToldOfAll(t *testing.T) {
	e, ends := &r.tally.events, &r.tally.outcomes
	require.Equal(t, r.client.base.attempts.Load(), r.tally.attempts.Load(), "attempts")
	require.Equal(t, ends[answered].Load(), e[backoff.EventSuccess].Load(), "successes")
	require.Equal(t, int64(r.calls), e[backoff.EventSuccess].Load()+e[backoff.EventGiveUp].Load())
}

func (r *rig) theServiceAgrees(t *testing.T) {
	done := r.service.done
	require.Zero(t, r.tally.confirmed.without(done), "calls that were confirmed, and not carried out")
	require.Zero(t, r.tally.unsent.with(done), "calls that were refused before they were sent, and carried out")
	require.Positive(t, done.without(r.tally.confirmed), "no answer was lost")
	require.Equal(t, int64(r.network.Stats().Exchanges)-r.network.stopped.Load(), r.service.requests.Load(), "requests")
	for n := range r.calls {
		if k := kindOf(n); k == keyed || k == single {
			require.False(t, r.service.twice.has(n), "call %d was carried out twice", n)
		}
	}
	require.Positive(t, r.service.twice.count(), "nothing was sent again after it had been carried out")
}
