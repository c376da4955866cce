package soak

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

const (
	workers = 32
	phases  = 20 // the first is to warm up
)

// How much more of the heap may be in use after a phase than after the first
// one, whatever the number of calls. For moreLive, that is space in pools and
// maps; for moreSpans also the gaps that a collection leaves between live
// objects.
const (
	moreLive  = 512 << 10
	moreSpans = 8 << 20
)

func TestNothingIsLostOrMadeTwiceOrLeftBehind(t *testing.T) {
	debug.SetGCPercent(400) // the heap is so small that a collection would begin every millisecond
	newRig(t, 1000).close() // what the first use of a network leaves for good
	before := read()
	r := newRig(t, nightly.Size(20_000, 2_000_000))
	r.soak(t)
	r.account(t)
	r.close()
	after := settled(t, before)
	t.Logf("before: %v", before)
	t.Logf("after:  %v", after)
}

// rig is a client, a service, and the network between them.
type rig struct {
	calls   int
	service *service
	network *network
	client  *client
	tally   *tally
	adverse *adversity
}

func newRig(t *testing.T, calls int) *rig {
	s, err := startService(calls)
	require.NoError(t, err)
	n, err := newNetwork(s.addr, 1)
	require.NoError(t, err)
	tally := newTally(calls)
	return &rig{calls, s, n, newClient(n.URL(), tally), tally, newAdversity()}
}

func (r *rig) close() {
	r.client.close()
	r.adverse.close()
	r.network.Close()
	r.service.close()
}

// soak makes the calls, and checks after every phase that it left nothing.
func (r *rig) soak(t *testing.T) {
	idle, begun := read(), time.Now()
	var warm reading
	for phase := range phases {
		r.client.run(phase*r.calls/phases, (phase+1)*r.calls/phases, r.adverse.beside)
		r.client.close()
		r.adverse.isBalanced(t)
		now := settled(t, idle)
		t.Logf("%d calls in %v: %v", (phase+1)*r.calls/phases, time.Since(begun).Round(time.Second), now)
		if phase == 0 {
			warm = now
		}
		require.LessOrEqual(t, now.live, warm.live+moreLive, "%v, and %v when warm", now, warm)
		require.LessOrEqual(t, now.spans, warm.spans+moreSpans, "%v, and %v when warm", now, warm)
		require.Equal(t, r.client.base.opened.Load(), r.client.base.closed.Load(), "bodies opened and closed")
	}
}

// settled waits for connections to be gone, and returns what is left then.
func settled(t *testing.T, want reading) reading {
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() != want.goroutines || files() != want.files {
		require.True(t, time.Now().Before(deadline), "%v, and %v before", read(), want)
		time.Sleep(time.Millisecond)
	}
	return read()
}
