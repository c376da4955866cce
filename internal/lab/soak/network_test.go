package soak

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/faultproxy"
)

// part is the number of bytes of an answer that pass before it is cut: its
// header and some of its body.
const part = 200

// shares are the faults of the network. A stall without an end lasts until the
// client gives up.
var shares = []faultproxy.Share{
	{Fault: faultproxy.Reset(), Probability: 0.003},
	{Fault: faultproxy.CutRequest(40), Probability: 0.002},
	{Fault: faultproxy.DropAnswer(), Probability: 0.004},
	{Fault: faultproxy.ResetAfter(part), Probability: 0.002},
	{Fault: faultproxy.Truncate(part), Probability: 0.002},
	{Fault: faultproxy.Stall(part, 3*time.Millisecond), Probability: 0.002},
	{Fault: faultproxy.Stall(part, 0), Probability: 0.0001},
	{Fault: faultproxy.Trickle(part, 100*time.Microsecond), Probability: 0.001},
}

// Once in as many exchanges as between says, the service cannot be reached for
// as long as outage says.
const (
	between = 10_000
	outage  = 40 * time.Millisecond
)

// network chooses the faults of exchanges, and counts the requests that do not
// arrive whole.
type network struct {
	*faultproxy.Proxy
	random  faultproxy.Plan
	down    time.Time // until then
	stopped atomic.Int64
}

func newNetwork(target string, seed uint64) (*network, error) {
	n := &network{random: faultproxy.Randomly(seed, shares...)}
	proxy, err := faultproxy.Start(target, n.plan)
	n.Proxy = proxy
	return n, err
}

func (n *network) plan(exchange int) faultproxy.Fault {
	now := time.Now()
	if exchange%between == between/2 {
		n.down = now.Add(outage)
	}
	fault := n.random(exchange)
	if now.Before(n.down) {
		fault = faultproxy.Reset()
	}
	if fault == faultproxy.Reset() || fault == faultproxy.CutRequest(40) {
		n.stopped.Add(1)
	}
	return fault
}

// draw returns a number in [0,1) that depends on n only.
func draw(seed uint64, n int64) float64 {
	return rand.New(rand.NewPCG(seed, uint64(n))).Float64()
}
