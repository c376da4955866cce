package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// ErrTripped is the Last of a [backoff.OpenError] if other processes caused the
// breaker to open. The OpenError itself matches backoff.ErrOpen only.
var ErrTripped = errors.New("fleet: other processes found the service down")

// A Client is how one process takes part in a fleet. It is the Shared of the
// breakers of the process, and talks to the store for them and for the budgets
// of the process.
//
//	var hub = &fleet.Client{Store: store}
//	var breaker = backoff.Breaker{Name: "search", Shared: hub}
//
// One Client is enough for all breakers and budgets of a process. They share
// what they know with those of the same name in other processes. Only Store
// must be set. A Client must not be copied, and its fields must not be changed,
// after first use. It is safe for concurrent use.
//
// A breaker in use costs about one Load per Every, on a goroutine that lives
// as long as the call of the store. When a process opens a circuit, probes it
// or closes it, it says so at once. A call of the store that fails is not
// repeated; the next change or the next probe makes up for it. The calls of
// the store go through a separate breaker. A Store that panics counts as one
// that failed.
type Client struct {
	// Store holds what the processes share.
	Store Store
	// Voter is the name under which the process votes for opening a circuit.
	// Processes of the same name count as one. Where processes fail together,
	// such as the functions on one host, Voter should be the name of the host.
	// "" means that the process has a vote of its own.
	Voter string
	// Timeout bounds every call of the store. 0 means 50 ms, a negative number
	// no limit.
	Timeout time.Duration
	// Every is the least time between two loads of the same circuit, to which
	// up to a fifth is added at random. It is also the least time between two
	// requests for tokens of a budget. 0 means 1 second; a negative Every is
	// invalid.
	Every time.Duration
	// Wait is how long a call may wait for the store if nothing is known yet.
	// That is the first call, the call after a pause of Every or more, and a
	// call that would be a probe.
	//
	// 0 means that calls use what the process knows. Only the call that asks
	// for the right to probe waits, since it would be refused otherwise. It
	// waits up to Timeout, or 50 ms if Timeout is no limit.
	//
	// A negative number means that no call waits. Then a process that calls
	// less often than Every may have to wait for Trust. See [Serverless].
	Wait time.Duration
	// Quorum is how many processes must have found a service down, at the same
	// time, before all other processes believe it. 0 means 2, a negative number
	// 1: then any sick process can stop the whole fleet.
	Quorum int
	// Trust is how long the fleet can keep a process from probing by itself.
	// After Trust the process probes, even if the store says otherwise. Up to
	// a fifth is added at random. 0 means 5 minutes, a negative number no
	// limit.
	Trust time.Duration
	// Guard is the breaker around the store. nil means a breaker that opens at
	// the third failure in a row, for 1 to 30 seconds. The Observer of Guard
	// learns when the store is lost.
	Guard *backoff.Breaker

	mu       sync.Mutex
	ready    bool                  // the fields below are set
	closed   bool                  // Close was called
	id       string                // the name of this process
	guard    *backoff.Breaker      // around the store
	circuits map[string]*circuit   // by the name of the breaker
	holders  map[*Budget]time.Time // the budgets with tokens, and when the tokens expire
	sweepAt  int                   // number of holders at which the next sweep is due
	calling  int                   // number of goroutines that call the store
	idle     chan struct{}         // closed when calling falls to 0; nil while it is 0
}

// The defaults of a Client.
const (
	defaultTimeout = 50 * time.Millisecond
	defaultEvery   = time.Second
	defaultQuorum  = 2
	defaultTrust   = 5 * time.Minute
)

// Validate returns an error that names an invalid field. A breaker refuses its
// calls with this error.
func (c *Client) Validate() error {
	switch {
	case c == nil:
		return errors.New("fleet: Client is nil")
	case c.Store == nil:
		return errors.New("fleet: Client.Store is nil")
	case c.Every < 0:
		return fmt.Errorf("fleet: Client.Every is %v, want 0 (for 1s) or more", c.Every)
	case c.Guard != nil:
		return c.Guard.Validate()
	}
	return nil
}

// Consult is for [backoff.Breaker].
func (c *Client) Consult(ctx context.Context, name string, wake func()) backoff.BreakerTransition {
	return c.await(ctx, query{name: name, wake: wake})
}

// Probe is for [backoff.Breaker].
func (c *Client) Probe(ctx context.Context, name string, timeout time.Duration) backoff.BreakerTransition {
	return c.await(ctx, query{name: name, probes: true, timeout: timeout})
}

// query is the question of a breaker about its circuit.
type query struct {
	name    string
	wake    func()        // closed: to be called when there is news
	probes  bool          // half-open: whether the call may probe
	timeout time.Duration // half-open: how long the probe may take
}

// await answers a query. It waits for the store as long as the call may wait.
func (c *Client) await(ctx context.Context, q query) backoff.BreakerTransition {
	state, coming, asks := c.answer(q, false)
	wait := c.maxWait(asks)
	if coming == nil || wait <= 0 {
		return state
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for coming != nil {
		select {
		case <-coming:
			state, coming, _ = c.answer(q, false)
		case <-timer.C:
			state, coming, _ = c.answer(q, true)
		case <-ctx.Done():
			return state
		}
	}
	return state
}

// maxWait returns how long a call waits for an answer of the store. A call that
// asks for the lease should wait: it may be the only call for a long time, and
// then no call would use the lease.
func (c *Client) maxWait(asks bool) time.Duration {
	switch {
	case !asks || c.Wait != 0:
		return c.Wait
	case c.timeout() < 0:
		return defaultTimeout
	}
	return c.timeout()
}

// maxTokenWait returns how long a retry that has waited for long waits for its
// token.
func (c *Client) maxTokenWait() time.Duration {
	wait := c.maxWait(true)
	if c.timeout() > 0 {
		wait = min(wait, c.timeout())
	}
	return wait
}

// answer answers from what is known. coming is closed when more is known; it is
// nil if there is nothing to wait for. asks says that this call has asked for
// the lease. late says that the call has waited long enough.
func (c *Client) answer(q query, late bool) (state backoff.BreakerTransition, coming <-chan struct{}, asks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.setUp(); c.closed {
		return backoff.BreakerTransition{}, nil, false
	}
	e, now := c.circuit(q.name), time.Now()
	if q.probes {
		state, coming, asks = e.probe(q, now)
	} else {
		state, coming = e.look(q, now)
	}
	switch {
	case !late:
		return state, coming, asks
	case q.probes && e.answered != nil: // the store is late: the breaker decides
		return backoff.BreakerTransition{}, nil, false
	}
	return state, nil, false
}

// Opened is for [backoff.Breaker].
func (c *Client) Opened(name string, openFor time.Duration, openings int) {
	c.unlessClosed(func() { c.circuit(name).reportOpened(openFor, openings) })
}

// Closed is for [backoff.Breaker].
func (c *Client) Closed(name string) {
	c.unlessClosed(func() { c.circuit(name).reportClosed(time.Now()) })
}

// unlessClosed does something under the lock, unless Close was called. It reports
// whether it has.
func (c *Client) unlessClosed(do func()) (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.setUp(); !c.closed {
		do()
		return true
	}
	return false
}

// Flush waits until all calls of the store have ended. If ctx ends before
// that, Flush returns the error of ctx. Call it before the process is frozen,
// as functions are between two calls. It waits for a few times Timeout at
// most.
func (c *Client) Flush(ctx context.Context) error {
	c.mu.Lock()
	idle := c.idle
	c.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close gives back leases and tokens, and waits as Flush does. Call it before
// the process ends. A process that cannot call Close loses nothing but time,
// because everything it holds expires. Breakers and budgets continue without a
// fleet.
func (c *Client) Close(ctx context.Context) error {
	c.unlessClosed(c.shutDown)
	return c.Flush(ctx)
}

// shutDown gives back leases and tokens.
func (c *Client) shutDown() {
	c.closed = true
	for _, e := range c.circuits {
		e.shutDown(time.Now())
	}
	for b := range c.holders {
		c.beginCall()
		go func() {
			defer c.endCall()
			b.returnTokens(c.id)
		}()
	}
}

// beginCall notes that a goroutine is about to call the store. Each beginCall
// must be followed by an endCall.
func (c *Client) beginCall() {
	if c.calling++; c.calling == 1 {
		c.idle = make(chan struct{})
	}
}

// endCall notes that a goroutine has called the store for the last time.
func (c *Client) endCall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calling--; c.calling == 0 {
		close(c.idle)
		c.idle = nil
	}
}

// addHolder notes that a budget has tokens until the given time, and forgets
// budgets whose tokens have expired. It returns false if the client is closed.
func (c *Client) addHolder(b *Budget, until time.Time) bool {
	return c.unlessClosed(func() {
		if len(c.holders) >= c.sweepAt {
			now := time.Now()
			maps.DeleteFunc(c.holders, func(_ *Budget, until time.Time) bool { return !until.After(now) })
			c.sweepAt = max(64, 2*len(c.holders))
		}
		c.holders[b] = until
	})
}

// setUp makes the client ready at first use.
func (c *Client) setUp() {
	if c.ready {
		return
	}
	c.ready = true
	c.circuits, c.holders = make(map[string]*circuit), make(map[*Budget]time.Time)
	c.id = rand.Text()
	if c.guard = c.Guard; c.guard == nil {
		c.guard = &backoff.Breaker{
			Name:                "fleet store",
			ConsecutiveFailures: 3,
			ConsecutiveSpan:     -1,
			OpenFor:             backoff.Exponential{Initial: time.Second, Max: 30 * time.Second},
			ProbeSuccesses:      1,
			Classify:            func(error) backoff.Class { return backoff.ClassRetryable },
		}
	}
}

// circuit returns what is known of a circuit. It adds the circuit at its first
// use.
func (c *Client) circuit(name string) *circuit {
	e := c.circuits[name]
	if e == nil {
		e = &circuit{client: c, key: name, obeys: obedience{trust: c.trust()}}
		e.timer = time.AfterFunc(c.every(), e.tick)
		c.circuits[name] = e
	}
	return e
}

// call calls the store, for Timeout at most. The caller must not hold the lock.
func (c *Client) call(op func(context.Context) error) error {
	ctx := context.Background()
	if d := c.timeout(); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	return c.guard.Do(ctx, func(ctx context.Context) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("fleet: the store panicked: %v", p)
			}
		}()
		return op(ctx)
	})
}

// timeout returns Timeout or its default.
func (c *Client) timeout() time.Duration { return cmp.Or(c.Timeout, defaultTimeout) }

// every returns Every or its default.
func (c *Client) every() time.Duration { return cmp.Or(max(0, c.Every), defaultEvery) }

// voter returns Voter or its default.
func (c *Client) voter() string { return cmp.Or(c.Voter, c.id) }

// quorum returns Quorum or its default.
func (c *Client) quorum() int { return max(1, cmp.Or(c.Quorum, defaultQuorum)) }

// trust draws how long the fleet is trusted.
func (c *Client) trust() time.Duration {
	if c.Trust < 0 {
		return forever
	}
	return spread(cmp.Or(c.Trust, defaultTrust))
}

// forever stands for no limit, and is short enough to be added to any time.
const forever = 100 * 365 * 24 * time.Hour

// spread adds up to a fifth at random, so that the processes of a fleet do not
// act at the same moment.
func spread(d time.Duration) time.Duration {
	d = min(d, forever)
	return d + time.Duration(mathrand.Float64()*float64(d/5))
}
