package backoff

import (
	"cmp"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/draw"
)

const (
	throttleBins      = 30
	defaultK          = 2
	defaultThrottling = 30 * time.Second
	defaultPad        = 8
	defaultMaxReject  = 0.95

	recentBins     = throttleBins / 10
	recentRequests = 10
)

// Throttle is a [Budget] that refuses attempts, first ones included, as the service
// refuses them: adaptive throttling. What is refused here costs the service nothing. With
// the defaults a client sends about twice what the service accepts, so that half of what
// it sends is still refused there, and no more.
//
// An attempt is refused with the probability
//
//	max(0, (requests - K*accepts) / (requests + Pad))
//
// of the last Window, but at most MaxReject. Requests are the attempts that were answered
// and those that were refused here; without the latter the client would send more and
// more. Accepted is what ended in OutcomeSuccess or OutcomeDefinitive. Attempts that the
// caller ended, or that never return, count neither way.
//
// Reopening. That formula alone stays shut for a minute and more after an outage longer
// than its window. The window is full of refusals, which are its own; the few attempts
// that are let through must make a K-th part of it before it opens, and their number
// grows only as it opens. So the probability is computed twice: over the whole window,
// and over its newest tenth, or as much more as has 10 requests, there without Pad. The
// lower one counts. The newest tenth forgets ten times as fast, and MaxReject sees to it
// that there is something to learn from. Nine of ten attempts go through again within 30
// s at any rate of calls, and all of them within 10 s at 100 a second. The price is
// small: a client that offers many times what the service can do sends 2.0 to 2.1 times
// what is accepted.
//
// It is for overload, where a service answers some calls and refuses others: there it is
// proportional, and does not flap as a [Breaker] would. Where more than half of the calls
// fail for reasons that are not load, it makes things worse, and for a service that is
// dead a Breaker is better. A client with fewer calls than Pad in a window is hardly ever
// refused.
//
// The zero value is ready to use. A Throttle must not be copied, nor its fields changed,
// after first use. It is safe for concurrent use. An attempt takes a lock and reads the
// clock twice, some 150 ns in all, and allocates nothing. A Done that never comes is an
// attempt not counted; a second one counts it twice.
//
// Source: Google SRE book, "Handling Overload", "Client-Side Throttling". The window,
// Pad, and that refusals count are those of grpc-go's balancer/rls/internal/adaptive; the
// newest tenth is this library's.
type Throttle struct {
	// K is how many times what the service accepts may be sent. 0 means 2; less than 1 is
	// invalid. 1.1 spares the service more, and notices its recovery later.
	K float64
	// Window is the time that counts, in 30 bins. 0 means 30 s; negative ones are
	// invalid.
	Window time.Duration
	// Pad keeps small numbers from deciding. 0 means 8; negative ones are invalid.
	Pad float64
	// MaxReject is the highest probability of a refusal. 0 means 0.95; 1 is invalid, as
	// then a recovery would never be noticed.
	MaxReject float64
	// Rand draws uniformly from [0,1). It must be safe for concurrent use. nil means
	// math/rand/v2.
	Rand func() float64

	mu    sync.Mutex
	watch stopwatch
	now   int64 // the number of the current bin
	bins  [throttleBins]tally
	sum   tally
}

// A tally counts requests.
type tally struct{ requests, accepts uint64 }

// Reserve implements [Budget].
func (b *Throttle) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	now := a.Time()
	p := b.probability(now)
	if a.Priority != Normal {
		p = math.Pow(p, 1/a.Priority.waitFactor())
	}
	if p > 0 && b.draw() < p {
		b.count(now, false)
		return Ticket{}, 0, false
	}
	return Ticket{}, 0, true
}

// Done implements [Budget].
func (b *Throttle) Done(_ Ticket, r Result) {
	if r.Outcome != OutcomeCanceled && r.Outcome != OutcomeNotSent {
		b.count(clock.Now(), r.Outcome == OutcomeSuccess || r.Outcome == OutcomeDefinitive)
	}
}

func (b *Throttle) draw() float64 {
	return draw.Unit(b.Rand)
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

// bin returns the bin so many before the current one.
func (b *Throttle) bin(back int64) *tally {
	return &b.bins[(b.now+throttleBins-back)%throttleBins]
}

// advance empties the bins whose time is over.
func (b *Throttle) advance(now time.Time) {
	width := max(1, cmp.Or(b.Window, defaultThrottling)/throttleBins)
	number := int64(b.watch.read(now) / width)
	for range min(number-b.now, throttleBins) {
		b.now++
		t := b.bin(0)
		b.sum.requests -= t.requests
		b.sum.accepts -= t.accepts
		*t = tally{}
	}
	b.now = number
}

// probability is that of a refusal.
func (b *Throttle) probability(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	whole := b.excess(b.sum) / (float64(b.sum.requests) + cmp.Or(b.Pad, defaultPad))
	if whole <= 0 {
		return 0
	}
	recent := b.recent()
	return max(0, min(whole, b.excess(recent)/float64(recent.requests), cmp.Or(b.MaxReject, defaultMaxReject)))
}

func (b *Throttle) excess(t tally) float64 {
	return float64(t.requests) - cmp.Or(b.K, defaultK)*float64(t.accepts)
}

// recent adds up the newest bins, until there are enough requests to go by.
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
	Requests    uint64  // within the window: answered, or refused here
	Accepts     uint64  // of these, accepted by the service
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
func (b *Throttle) Validate() error {
	switch {
	case b == nil:
		return invalid("Throttle", "is nil")
	case b.K != 0 && !(b.K >= 1 && b.K <= math.MaxFloat64):
		return outOfRange("Throttle.K", b.K, "1 or more")
	case b.Window < 0:
		return negative("Throttle.Window", b.Window)
	case !(b.Pad >= 0 && b.Pad <= math.MaxFloat64):
		return outOfRange("Throttle.Pad", b.Pad, "0 or more")
	case !(b.MaxReject >= 0 && b.MaxReject < 1):
		return outOfRange("Throttle.MaxReject", b.MaxReject, "at least 0 and less than 1")
	}
	return nil
}

func outOfRange(field string, value float64, want string) error {
	return invalid(field, "is "+strconv.FormatFloat(value, 'g', -1, 64)+", want "+want)
}
