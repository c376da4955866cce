package fleet

import (
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

// ErrTripped is the Last of a [backoff.OpenError] where the breaker was opened by what
// other processes saw.
var ErrTripped = errors.New("fleet: other processes found the service down")

// A Client is how one process takes part in a fleet: it is the Shared of its breakers, and
// talks to the store for them and for its budgets.
//
//	var hub = &fleet.Client{Store: store}
//	var breaker = backoff.Breaker{Name: "search", Shared: hub}
//
// One is enough for all breakers and budgets of a process; they meet those of other
// processes that have the same name. Only Store is needed. A Client must not be copied,
// nor its fields changed, after first use. It is safe for concurrent use.
//
// A breaker in use costs about one Load per Every, on a goroutine of its own that is there
// for the time of that call. When a process opens a circuit, probes or closes one, it says
// so at once. What fails is not repeated; the next change or the next probe makes it good.
// The store itself is behind a breaker. A Store that panics counts as one that failed.
type Client struct {
	// Store is what the processes have in common.
	Store Store
	// Voter is who votes for opening a circuit: processes of the same name are one. Where
	// processes fail together, such as the functions on one host, that should be the
	// host's. "" means that this process is one by itself.
	Voter string
	// Timeout bounds every call of the store. 0 means 50 ms, a negative number no limit.
	Timeout time.Duration
	// Every is the time between two looks at the same circuit, at least, and up to a
	// fifth more; and between two requests for a budget's tokens. 0 means 1 second.
	Every time.Duration
	// Wait is how long a call may wait for the store where nothing is known yet: the
	// first call, that after a pause of Every or more, and one that would be a probe. 0
	// means that calls go by what this process knows, and that of those which would be
	// refused the one that asks to be the probe waits for the answer, up to Timeout (50
	// ms if that is no limit). A negative number means that none does: then a process
	// that calls less often than Every may have to wait for Trust. See [Serverless].
	Wait time.Duration
	// Quorum is how many processes must have found a service down, at the same time, for
	// all others to believe it. 0 means 2, a negative number 1: then any sick process can
	// stop the whole fleet.
	Quorum int
	// Trust is how long the fleet can keep a process from finding out by itself, one way
	// or another: after that it probes, whatever the store says. Up to a fifth more is
	// added at random. 0 means 5 minutes, a negative number no limit.
	Trust time.Duration
	// Guard is the breaker around the store. nil means one that opens at the third
	// failure in a row, for 1 to 30 seconds. Its Observer hears when the store is lost.
	Guard *backoff.Breaker

	mu       sync.Mutex
	ready    bool
	closed   bool
	id       string
	guard    *backoff.Breaker
	circuits map[string]*circuit
	holders  map[*Budget]time.Time // of tokens, and until when
	sweepAt  int                   // their number
	flights  int                   // goroutines that call the store
	quiet    chan struct{}         // closed when there are none; nil: there are none
}

const (
	defaultTimeout = 50 * time.Millisecond
	defaultEvery   = time.Second
	defaultQuorum  = 2
	defaultTrust   = 5 * time.Minute
)

// Validate names the field that makes no sense. A breaker refuses its calls with the
// error.
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

// Consult implements [backoff.Shared].
func (c *Client) Consult(ctx context.Context, name string, wake func()) backoff.SharedState {
	return c.await(ctx, query{name: name, wake: wake})
}

// Probe implements [backoff.Shared].
func (c *Client) Probe(ctx context.Context, name string, timeout time.Duration) backoff.SharedState {
	return c.await(ctx, query{name: name, probes: true, timeout: timeout})
}

// query is the question of a breaker about its circuit.
type query struct {
	name    string
	wake    func()        // closed: to be called when there is news
	probes  bool          // half-open: whether the call may probe
	timeout time.Duration // half-open: how long the probe may take
}

// await answers a query, and waits for the store as long as a call is to wait.
func (c *Client) await(ctx context.Context, q query) backoff.SharedState {
	state, coming, asks := c.answer(q, false)
	wait := c.patience(asks)
	if coming == nil || wait <= 0 {
		return state
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	for coming != nil {
		select {
		case <-coming:
			state, coming, _ = c.answer(q, false)
		case <-patience.C:
			state, coming, _ = c.answer(q, true)
		case <-ctx.Done():
			return state
		}
	}
	return state
}

// patience returns how long a call waits for what is coming. A call that asks for the lease
// and goes away may be the only one for long: nobody would be there when it is granted.
func (c *Client) patience(asks bool) time.Duration {
	switch {
	case !asks || c.Wait != 0:
		return c.Wait
	case c.timeout() < 0:
		return defaultTimeout
	}
	return c.timeout()
}

// answer answers from what is known; coming is closed when more will be, and nil where it
// is known, or too late to wait for; asks says that this call has asked for the lease.
func (c *Client) answer(q query, late bool) (state backoff.SharedState, coming <-chan struct{}, asks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open(); c.closed {
		return backoff.SharedState{}, nil, false
	}
	e, now := c.circuit(q.name), time.Now()
	if q.probes {
		state, coming, asks = e.probe(q, now)
	} else {
		state, coming = e.look(q, now)
	}
	if late {
		return e.late(q, state), nil, false
	}
	return state, coming, asks
}

// Opened implements [backoff.Shared].
func (c *Client) Opened(name string, openFor time.Duration, openings int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open(); !c.closed {
		c.circuit(name).opened(openFor, openings)
	}
}

// Closed implements [backoff.Shared].
func (c *Client) Closed(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open(); !c.closed {
		c.circuit(name).shut(time.Now())
	}
}

// Flush returns when nothing is on its way to the store any more, or ctx has ended, with its
// error. A process that is about to be frozen, as functions are between two calls, should
// call it. It waits for a few times Timeout at most.
func (c *Client) Flush(ctx context.Context) error {
	c.mu.Lock()
	quiet := c.quiet
	c.mu.Unlock()
	if quiet == nil {
		return nil
	}
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close gives back leases and tokens, and waits as Flush does. A process that is about to
// end should call it; one that cannot loses nothing but time, for all it holds has an end.
// Breakers and budgets go on without a fleet.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	for b := range c.part() {
		c.depart()
		go func() {
			defer c.disengage()
			b.leave(c.id)
		}()
	}
	c.mu.Unlock()
	return c.Flush(ctx)
}

// part ends what the client does, and returns the budgets that hold tokens.
func (c *Client) part() map[*Budget]time.Time {
	if c.open(); c.closed {
		return nil
	}
	c.closed = true
	for _, e := range c.circuits {
		e.leave(time.Now())
	}
	return c.holders
}

// engage notes that a goroutine is about to call the store, unless the client is closed.
func (c *Client) engage() (id string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open(); c.closed {
		return "", false
	}
	c.depart()
	return c.id, true
}

func (c *Client) depart() {
	if c.flights++; c.flights == 1 {
		c.quiet = make(chan struct{})
	}
}

func (c *Client) disengage() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights--; c.flights == 0 {
		close(c.quiet)
		c.quiet = nil
	}
}

// hold notes that a budget has tokens, unless the client is closed, and forgets those whose
// are void.
func (c *Client) hold(b *Budget, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if len(c.holders) >= c.sweepAt {
		now := time.Now()
		maps.DeleteFunc(c.holders, func(_ *Budget, until time.Time) bool { return !until.After(now) })
		c.sweepAt = max(64, 2*len(c.holders))
	}
	if c.holders == nil {
		c.holders = make(map[*Budget]time.Time)
	}
	c.holders[b] = until
	return true
}

// open makes the client ready at first use.
func (c *Client) open() {
	if c.ready {
		return
	}
	c.ready = true
	c.circuits = make(map[string]*circuit)
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

// circuit returns what is known of a circuit, and makes it if need be.
func (c *Client) circuit(name string) *circuit {
	e := c.circuits[name]
	if e == nil {
		e = &circuit{client: c, key: name, trust: c.trust()}
		e.timer = time.AfterFunc(c.every(), e.tick)
		c.circuits[name] = e
	}
	return e
}

// call calls the store, for as long as Timeout, if that is there. It must be called without
// the lock.
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

func (c *Client) timeout() time.Duration {
	if c.Timeout == 0 {
		return defaultTimeout
	}
	return c.Timeout
}

func (c *Client) every() time.Duration {
	if c.Every <= 0 {
		return defaultEvery
	}
	return c.Every
}

func (c *Client) voter() string {
	if c.Voter == "" {
		return c.id
	}
	return c.Voter
}

func (c *Client) quorum() int {
	if c.Quorum == 0 {
		return defaultQuorum
	}
	return max(1, c.Quorum)
}

// trust draws for how long the fleet is trusted.
func (c *Client) trust() time.Duration {
	d := c.Trust
	switch {
	case d == 0:
		d = defaultTrust
	case d < 0:
		return forever
	}
	return spread(d)
}

const forever = 100 * 365 * 24 * time.Hour

// spread adds up to a fifth, so that the processes of a fleet do not act as one.
func spread(d time.Duration) time.Duration {
	d = min(d, forever)
	return d + time.Duration(mathrand.Float64()*float64(d/5))
}
