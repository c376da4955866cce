package fleet

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gobackoff/backoff"
)

// circuit is what a process knows of a circuit of its fleet. The client's lock
// guards it.
type circuit struct {
	client *Client
	key    string
	seen   answer // what the store said last

	used     bool      // called since the last tick
	retained bool      // not called any more, and only kept for what it knows
	wakes    []func()  // wake the closed breakers when the circuit trips
	nextLoad time.Time // when it may be loaded again
	nextAsk  time.Time // when the lease may be asked for again

	todo     requests
	answered chan struct{} // closed at the next answer of the store; nil if none is awaited
	sentAt   time.Time     // when the current request was sent
	failedAt time.Time     // when the last request failed; zero if it did not fail

	leasedUntil time.Time // until when this process may probe
	probed      bool      // this process has used its lease
	obeys       obedience
	overruled   uint64 // the generation that this process has found wrong

	timer *time.Timer
}

// answer is what the store said about a circuit.
type answer struct {
	Circuit
	at               time.Time // when the store said it; zero if it never did
	rejectOlderUntil time.Time // until then, an answer with an older generation is wrong
}

// age returns how old the answer is. Without an answer, that is the longest
// duration.
func (a *answer) age(now time.Time) time.Duration { return now.Sub(a.at) }

// openLeft returns how long the circuit of the fleet stays open.
func (a *answer) openLeft(now time.Time) time.Duration { return a.Open - a.age(now) }

// obedience is how a process follows its fleet against its own judgement.
type obedience struct {
	trust       time.Duration // longest time for it
	since       time.Time     // when it began; zero if the process judges for itself
	independent bool          // it probes by its own rules until it knows more
}

// left notes that the process follows the fleet, and returns for how long it
// will.
func (o *obedience) left(now time.Time) time.Duration {
	if o.since.IsZero() {
		o.since = now
	}
	return o.since.Add(o.trust).Sub(now)
}

// requests is what is to be sent to the store.
type requests struct {
	trip  *Trip
	reset uint64        // the generation to close; 0 for none
	lease time.Duration // how long a lease to ask for; negative gives it back
	load  bool
}

// look answers a closed breaker.
func (e *circuit) look(q query, now time.Time) (backoff.BreakerTransition, <-chan struct{}) {
	e.markUsed()
	e.wakes = append(e.wakes, q.wake)
	if !now.Before(e.nextLoad) {
		e.todo.load = true
		e.send()
	}
	if e.knows(now) {
		return e.advice(now), nil
	}
	if e.storeIsAway(now) {
		return backoff.BreakerTransition{}, nil
	}
	return backoff.BreakerTransition{}, e.answered
}

// knows reports whether the last answer is recent enough.
func (e *circuit) knows(now time.Time) bool {
	return e.seen.age(now) < 2*e.client.every() || e.seen.openLeft(now) > 0
}

// tripped reports whether the fleet found the service down, and this process
// has not found otherwise.
func (e *circuit) tripped() bool { return e.seen.Tripped && e.seen.Generation != e.overruled }

// advice says what the state of the fleet's circuit means for a closed breaker.
func (e *circuit) advice(now time.Time) backoff.BreakerTransition {
	if !e.tripped() {
		e.obeys.since = time.Time{}
		return backoff.BreakerTransition{}
	}
	if left := min(e.seen.openLeft(now), e.obeys.left(now)); left > 0 {
		return e.open(left)
	}
	return backoff.BreakerTransition{To: backoff.BreakerHalfOpen, Openings: e.seen.Openings, Err: ErrTripped}
}

// open tells the breaker to stay open for the given time. It adds a little at
// random, so that the processes do not all ask for the lease at the same
// moment.
func (e *circuit) open(left time.Duration) backoff.BreakerTransition {
	left += time.Duration(rand.Float64() * float64(min(left, e.client.every())))
	return backoff.BreakerTransition{To: backoff.BreakerOpen, RetryAfter: left, Openings: e.seen.Openings, Err: ErrTripped}
}

// probe answers a half-open breaker.
func (e *circuit) probe(q query, now time.Time) (advice backoff.BreakerTransition, coming <-chan struct{}, asks bool) {
	e.markUsed()
	switch {
	case e.obeys.independent || e.storeIsAway(now):
		return advice, nil, false
	case e.leasedUntil.After(now):
		e.probed, e.obeys.since = true, time.Time{} // not earlier: a lease may be over when its grant arrives
		return advice, nil, false
	case e.obeys.left(now) <= 0:
		e.obeys.independent, e.obeys.since = true, time.Time{}
		return advice, nil, false
	}
	fresh := e.seen.age(now) < e.client.every()
	hold := backoff.BreakerTransition{To: backoff.BreakerHalfOpen}
	switch left := min(e.seen.openLeft(now), e.obeys.left(now)); {
	case e.tripped() && left > 0: // it cannot be closed earlier
		return e.open(left), nil, false
	case e.knownClosed(fresh):
		e.obeys.since = time.Time{}
		return advice, nil, false
	case fresh && e.seen.Leased > e.seen.age(now):
		return hold, nil, false
	}
	if !now.Before(e.nextAsk) {
		e.todo.lease, asks = min(q.timeout, forever)+e.leaseMargin(), true
		e.send()
	}
	return hold, e.answered, asks
}

// knownClosed reports whether the circuit of the fleet is closed. The answer
// that says so must be fresh, or newer than the first question of this
// half-open breaker.
func (e *circuit) knownClosed(fresh bool) bool {
	return !e.tripped() && (fresh || e.seen.at.After(e.obeys.since))
}

// leaseMargin returns how long it may take from the grant of a lease to the
// next call, which probes. If there is no call until the next tick, the lease
// is given back.
func (e *circuit) leaseMargin() time.Duration {
	return min(max(0, e.client.timeout()), time.Hour) + min(e.client.every(), time.Hour)
}

// storeIsAway reports whether the store cannot be relied on now: its answer is
// overdue, or it failed a moment ago.
func (e *circuit) storeIsAway(now time.Time) bool {
	c := e.client
	overdue := e.answered != nil && c.timeout() > 0 && now.Sub(e.sentAt) >= c.timeout()
	return overdue || !e.failedAt.IsZero() && now.Sub(e.failedAt) < c.every() || c.guard.State() == backoff.BreakerOpen
}

// reportOpened handles that this process found the service down.
func (e *circuit) reportOpened(openFor time.Duration, openings int) {
	e.judged()
	e.todo.trip = &Trip{By: e.client.id, Voter: e.client.voter(), Open: min(openFor, forever), Openings: openings, Quorum: e.client.quorum()}
	e.overruled = 0
	e.send()
}

// reportClosed handles that this process found the service up again. The
// process tells the fleet only if it holds the lease.
func (e *circuit) reportClosed(now time.Time) {
	e.judged()
	if !e.seen.Tripped {
		return
	}
	e.overruled = e.seen.Generation
	if e.leasedUntil.After(now) {
		e.todo.reset = e.seen.Generation
		e.send()
	}
	e.leasedUntil = time.Time{}
}

// judged notes that the process has judged for itself, and needs no lease.
func (e *circuit) judged() {
	e.markUsed()
	e.obeys.independent, e.obeys.since = false, time.Time{}
	e.todo.lease = 0
}

// shutDown stops the timer, and gives back the lease.
func (e *circuit) shutDown(now time.Time) {
	e.timer.Stop()
	e.todo.load, e.todo.lease = false, 0
	if e.leasedUntil.After(now) {
		e.returnLease()
	}
}

// returnLease gives back the lease.
func (e *circuit) returnLease() {
	e.leasedUntil = time.Time{}
	e.todo.lease = -1
	e.send()
}

// markUsed notes that there are calls.
func (e *circuit) markUsed() {
	e.used = true
	if e.retained {
		e.retained = false
		e.timer.Reset(e.client.every())
	}
}

// worthKeepingFor returns how long to remember the circuit though there are no
// calls. It is worth remembering that the circuit is open, or was open a moment
// ago, and that this process holds the lease. It is also worth remembering
// since when the process follows the fleet: otherwise it would follow for
// longer than Trust.
func (e *circuit) worthKeepingFor(now time.Time) time.Duration {
	if (e.overruled != 0 || !e.obeys.since.IsZero()) && e.obeys.trust < forever {
		return e.obeys.trust
	}
	return min(max(e.seen.rejectOlderUntil.Sub(now), e.leasedUntil.Sub(now)), defaultTrust)
}

// tick runs when the circuit may be loaded again. The next call loads it. If
// there is no call until the next tick, the circuit is forgotten, unless it is
// worth keeping.
func (e *circuit) tick() {
	c := e.client
	c.mu.Lock()
	wakes := e.wakes
	e.wakes = nil
	now := time.Now()
	if e.leasedUntil.After(now) && !e.probed && !c.closed {
		e.returnLease()
	}
	switch {
	case c.closed:
	case e.used || e.answered != nil:
		e.timer.Reset(max(c.every(), e.nextLoad.Sub(now)))
	case !e.retained && e.worthKeepingFor(now) > 0:
		e.retained = true
		e.timer.Reset(e.worthKeepingFor(now))
	default:
		delete(c.circuits, e.key)
	}
	e.used = false
	c.mu.Unlock()
	wakeAll(wakes)
}

// wakeAll wakes breakers. The caller must not hold the lock, since a breaker
// may call the client again.
func wakeAll(breakers []func()) {
	for _, wake := range breakers {
		wake()
	}
}

// send sends the requests to the store on a goroutine, unless one is doing so
// already.
func (e *circuit) send() {
	if e.answered != nil {
		return
	}
	e.answered, e.sentAt = make(chan struct{}), time.Now()
	e.client.beginCall()
	go e.sendAll()
}

// sendAll sends requests until there are none left.
func (e *circuit) sendAll() {
	c := e.client
	defer c.endCall()
	for request := e.nextRequest(); request != nil; request = e.nextRequest() {
		var seen Circuit
		err := c.call(func(ctx context.Context) (err error) {
			seen, err = request(ctx)
			return err
		})
		wakeAll(e.receive(seen, err))
	}
}

// nextRequest takes the next request; nil if there is none.
func (e *circuit) nextRequest() func(context.Context) (Circuit, error) {
	c := e.client
	c.mu.Lock()
	defer c.mu.Unlock()
	request := e.mostUrgent()
	if request == nil {
		close(e.answered)
		e.answered = nil
		return nil
	}
	e.sentAt = time.Now()
	e.nextLoad = e.sentAt.Add(spread(c.every()))
	return request
}

// mostUrgent takes the request that matters most; nil if there is none.
func (e *circuit) mostUrgent() func(context.Context) (Circuit, error) {
	store, key, id, todo := e.client.Store, e.key, e.client.id, &e.todo
	switch {
	case todo.trip != nil && !e.seen.at.IsZero():
		t := *todo.trip
		t.Seen = e.seen.Generation
		todo.trip = nil
		return func(ctx context.Context) (Circuit, error) { return store.Trip(ctx, key, t) }
	case todo.reset != 0:
		generation := todo.reset
		todo.reset = 0
		return func(ctx context.Context) (Circuit, error) { return store.Reset(ctx, key, id, generation) }
	case todo.lease != 0:
		d := todo.lease
		todo.lease, todo.load = 0, false
		e.nextAsk = time.Now().Add(spread(e.client.every()))
		return func(ctx context.Context) (Circuit, error) { return store.Lease(ctx, key, id, d) }
	case todo.load || todo.trip != nil: // a Trip must name the generation that was seen
		todo.load = false
		return func(ctx context.Context) (Circuit, error) { return store.Load(ctx, key) }
	}
	return nil
}

// receive handles an answer of the store, and returns the breakers that must be
// woken.
func (e *circuit) receive(seen Circuit, err error) (wakes []func()) {
	c := e.client
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	close(e.answered)
	e.answered = make(chan struct{})
	if !e.retained && !c.closed {
		e.timer.Reset(max(0, e.nextLoad.Sub(now)))
	}
	if err != nil {
		e.failed(now)
		return nil
	}
	e.failedAt = time.Time{}
	if seen.Generation < e.seen.Generation && now.Before(e.seen.rejectOlderUntil) {
		return nil
	}
	if seen.Tripped && !e.seen.Tripped {
		wakes, e.wakes = e.wakes, nil
	}
	e.updateLease(seen)
	e.seen = answer{seen, now, now.Add(min(seen.Open, e.obeys.trust) + c.every())}
	return wakes
}

// failed handles that a request failed.
func (e *circuit) failed(now time.Time) {
	e.failedAt = now
	e.todo.load, e.todo.lease = false, 0 // the next call asks again if it needs them
	if e.seen.at.IsZero() {
		e.todo.trip = nil
	}
}

// updateLease notes whether this process holds the lease.
func (e *circuit) updateLease(seen Circuit) {
	halfOpen := seen.State() == backoff.BreakerHalfOpen
	if seen.Generation != e.seen.Generation || !halfOpen {
		e.leasedUntil = time.Time{}
	}
	if halfOpen && seen.Mine && seen.Leased > 0 {
		e.leasedUntil = e.sentAt.Add(min(seen.Leased, forever))
		e.probed = false
	}
}
