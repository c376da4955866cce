package limit

import (
	"math"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	throttleBins          = 30
	defaultK              = 2
	defaultThrottleWindow = 30 * time.Second
	defaultPad            = 8
	defaultMaxReject      = 0.95

	recentBins     = throttleBins / 10
	recentRequests = 10
)

// Throttle is a [backoff.Budget] that refuses attempts, first ones included,
// as the service refuses them: adaptive throttling. An attempt that is refused
// here costs the service nothing. With the defaults a client sends about twice
// what the service accepts: the service still refuses half of what it gets,
// and no more than that.
//
// An attempt is refused with the probability
//
//	min(MaxReject, max(0, (requests - K*accepts) / (requests + Pad)))
//
// of the last Window. requests counts the attempts that got a response and
// those that were refused here; without the latter the client would send more
// and more. accepts counts those that the service answered. Attempts that the
// caller ended, or that never return, count in neither.
//
// Reopening. After an outage longer than Window, the window is full of the
// client's own refusals. The formula alone would go on refusing for a minute and
// more, until accepts > requests/K. So the probability is computed twice: over
// the whole window, and over the newest tenth of it, without Pad. If that tenth
// has fewer than 10 requests, older bins are added to it until there are 10. The
// lower probability counts. The newest tenth forgets ten times as fast, and
// because of MaxReject it always has some responses. Nine of ten attempts pass
// again within 30 s at any rate of calls, and all of them within 10 s at 100 a
// second. The price is small: a client that offers many times what the service
// can do sends 2.0 to 2.1 times what is accepted.
//
// A Throttle is for overload, where a service serves some calls and refuses
// others: there it refuses in proportion, where a [backoff.Breaker] would open
// and close again and again. If more than half of the calls fail for other
// reasons than load, it makes things worse. For a service that is down a
// Breaker is better. A client with fewer calls than Pad in a window is hardly
// ever refused.
//
// The zero value is ready to use. A Throttle must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use. An attempt takes a
// lock and reads the clock twice, and allocates nothing. A Done that never comes
// is an attempt not counted; a second Done counts it twice.
//
// Source: Google SRE book, "Handling Overload", "Client-Side Throttling". The
// window, Pad, and that refusals count are those of grpc-go's
// balancer/rls/internal/adaptive; the newest tenth is this library's.
type Throttle struct {
	backoff.BudgetDefaults

	// K is how many attempts may be sent for each one that the service
	// accepts. 0 means 2; less than 1 is invalid. 1.1 spares the service more,
	// and notices its recovery later.
	K float64
	// Window is the time that counts, in 30 bins. 0 means 30 s; negative ones
	// are invalid.
	Window time.Duration
	// Pad keeps small numbers from deciding. 0 means 8; negative ones are
	// invalid.
	Pad float64
	// MaxReject is the highest probability of a refusal. 0 means 0.95. 1 is
	// invalid, as then a recovery would never be noticed.
	MaxReject float64
	// Rand draws uniformly from [0,1). It must be safe for concurrent use. nil
	// means math/rand/v2.
	Rand func() float64

	mu      sync.Mutex
	watch   clock.Stopwatch
	current int64 // the number of the current bin
	bins    [throttleBins]tally
	sum     tally
}

// A tally counts requests, and how many of them were accepted.
type tally struct{ requests, accepts uint64 }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *Throttle) GrantsFirst() bool { return false }

// Reserve implements [backoff.Budget].
func (b *Throttle) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	now := a.Time()
	p := math.Pow(b.probability(now), weight(a.Priority))
	if p > 0 && draw.Unit(b.Rand) < p {
		b.count(now, false)
		return backoff.Ticket{}, 0, false
	}
	return backoff.Ticket{}, 0, true
}

// weight is the power to which the probability of a refusal is raised.
func weight(p backoff.Priority) float64 {
	p = min(max(p, backoff.PriorityBackground), backoff.PriorityHigh)
	return [...]float64{0.25, 1, 2}[p-backoff.PriorityBackground]
}

// Done implements [backoff.Budget].
func (b *Throttle) Done(_ backoff.Ticket, r backoff.Result) {
	if !r.Canceled && !r.NotSent {
		b.count(clock.Now(), r.Answered())
	}
}

func (b *Throttle) count(now time.Time, accepted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	for _, t := range []*tally{b.bin(0), &b.sum} {
		t.requests++
		if accepted {
			t.accepts++
		}
	}
}

// bin returns the bin that many before the current one.
func (b *Throttle) bin(back int64) *tally { return &b.bins[(b.current+throttleBins-back)%throttleBins] }

// advance empties the bins whose time is over.
func (b *Throttle) advance(now time.Time) {
	width := max(1, limits.Or(b.Window, defaultThrottleWindow)/throttleBins)
	number := int64(b.watch.Elapsed(now) / width)
	for range min(number-b.current, throttleBins) {
		b.current++
		t := b.bin(0)
		b.sum.requests -= t.requests
		b.sum.accepts -= t.accepts
		*t = tally{}
	}
	b.current = number
}

// probability is the probability that an attempt is refused.
func (b *Throttle) probability(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	whole := b.excess(b.sum) / (float64(b.sum.requests) + limits.Or(b.Pad, defaultPad))
	if whole <= 0 {
		return 0
	}
	recent := b.recent()
	return max(0, min(whole, b.excess(recent)/float64(recent.requests), limits.Or(b.MaxReject, defaultMaxReject)))
}

// excess is how many requests there were beyond K times those accepted.
func (b *Throttle) excess(t tally) float64 {
	return float64(t.requests) - limits.Or(b.K, defaultK)*float64(t.accepts)
}

// recent sums the newest bins: a tenth of them, or until there are enough requests.
func (b *Throttle) recent() (t tally) {
	for back := range int64(throttleBins) {
		if back >= recentBins && t.requests >= recentRequests {
			break
		}
		t.requests += b.bin(back).requests
		t.accepts += b.bin(back).accepts
	}
	return t
}

// ThrottleStats is the state of a [Throttle].
type ThrottleStats struct {
	Requests    uint64  // within the window: that got a response, or were refused here
	Accepts     uint64  // requests that the service accepted
	Probability float64 // of a refusal
}

// Stats returns the state of the throttle at this moment.
func (b *Throttle) Stats() ThrottleStats {
	p := b.probability(clock.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	return ThrottleStats{Requests: b.sum.requests, Accepts: b.sum.accepts, Probability: p}
}

// Validate names the field that is out of its range.
func (b *Throttle) Validate() error { return backoff.Permanent(b.check()) }

func (b *Throttle) check() error {
	switch {
	case b == nil:
		return badfield.New("limit.Throttle", "is nil")
	case b.K != 0 && !(b.K >= 1 && b.K <= math.MaxFloat64):
		return badfield.Float("limit.Throttle.K", b.K, "1 or more")
	case b.Window < 0:
		return badfield.Negative("limit.Throttle.Window", b.Window)
	case !(b.Pad >= 0 && b.Pad <= math.MaxFloat64):
		return badfield.Float("limit.Throttle.Pad", b.Pad, "0 or more")
	case !(b.MaxReject >= 0 && b.MaxReject < 1):
		return badfield.Float("limit.Throttle.MaxReject", b.MaxReject, "at least 0 and less than 1")
	}
	return nil
}
