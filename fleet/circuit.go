package fleet

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gobackoff/backoff"
)

// circuit is what a process knows of a circuit of its fleet. The client's lock guards it.
type circuit struct {
	client *Client
	key    string
	trust  time.Duration

	seen Circuit   // what the store said last
	at   time.Time // when; zero as long as it has not
	firm time.Time // until then, an older generation is taken for a lie

	used    bool      // since the last tick
	resting bool      // there is something to remember, and no more
	wakes   []func()  // of closed breakers, to be called when there is news
	next    time.Time // when it may be looked at again
	nextAsk time.Time // when the lease may be asked for again

	errands errands
	done    chan struct{} // closed at the end of an errand; nil: nobody is under way
	sent    time.Time     // when the errand under way was sent
	failed  time.Time     // when one failed; zero: the last one did not

	leased   time.Time // until when this process may probe
	probing  bool      // it has
	yielding time.Time // since when it does as the fleet says, against its own will
	free     bool      // it probes by its own rules, until it knows more
	overrule uint64    // the generation that this process has found wrong

	timer *time.Timer
}

// errands is what there is to do at the store.
type errands struct {
	trip  *Trip
	reset uint64 // generation; 0: none
	lease time.Duration
	load  bool
}

// look answers a closed breaker.
func (e *circuit) look(q query, now time.Time) (backoff.SharedState, <-chan struct{}) {
	e.use()
	e.wakes = append(e.wakes, q.wake)
	if !now.Before(e.next) {
		e.errands.load = true
		e.run()
	}
	if e.knows(now) {
		return e.advice(now), nil
	}
	if e.away(now) {
		return backoff.SharedState{}, nil
	}
	return backoff.SharedState{}, e.done
}

// knows reports whether what is known is good enough.
func (e *circuit) knows(now time.Time) bool {
	return !e.at.IsZero() && (now.Sub(e.at) < 2*e.client.every() || e.left(now) > 0)
}

// left returns for how long the circuit of the fleet will be open.
func (e *circuit) left(now time.Time) time.Duration { return e.seen.Open - now.Sub(e.at) }

func (e *circuit) tripped() bool { return e.seen.Tripped && e.seen.Generation != e.overrule }

// advice says what the state of the fleet's circuit means for a closed one.
func (e *circuit) advice(now time.Time) backoff.SharedState {
	if !e.tripped() {
		e.yielding = time.Time{}
		return backoff.SharedState{}
	}
	if left := min(e.left(now), e.yield(now)); left > 0 {
		return e.open(left)
	}
	return backoff.SharedState{State: backoff.StateHalfOpen, Openings: e.seen.Openings, Err: ErrTripped}
}

// open is the advice to stay away, with a spread, so that the processes do not all ask for
// the lease at the same moment.
func (e *circuit) open(left time.Duration) backoff.SharedState {
	left += time.Duration(rand.Float64() * float64(min(left, e.client.every())))
	return backoff.SharedState{State: backoff.StateOpen, For: left, Openings: e.seen.Openings, Err: ErrTripped}
}

// yield notes that the process does as the fleet says, and returns for how long it will.
func (e *circuit) yield(now time.Time) time.Duration {
	if e.yielding.IsZero() {
		e.yielding = now
	}
	return e.yielding.Add(e.trust).Sub(now)
}

// probe answers a half-open breaker.
func (e *circuit) probe(q query, now time.Time) (advice backoff.SharedState, coming <-chan struct{}, asks bool) {
	e.use()
	switch {
	case e.free || e.away(now):
		return advice, nil, false
	case e.leased.After(now):
		e.probing, e.yielding = true, time.Time{} // not before: a lease may be over when it is known
		return advice, nil, false
	case e.yield(now) <= 0:
		e.free, e.yielding = true, time.Time{}
		return advice, nil, false
	}
	fresh := !e.at.IsZero() && now.Sub(e.at) < e.client.every()
	hold := backoff.SharedState{State: backoff.StateHalfOpen}
	switch left := min(e.left(now), e.yield(now)); {
	case e.tripped() && left > 0: // it cannot be closed before
		return e.open(left), nil, false
	case !e.tripped() && (fresh || e.at.After(e.yielding)):
		e.yielding = time.Time{}
		return advice, nil, false
	case fresh && e.seen.Leased > now.Sub(e.at):
		return hold, nil, false
	}
	if !now.Before(e.nextAsk) {
		e.errands.lease, asks = min(q.timeout, forever)+e.detour(), true
		e.run()
	}
	return hold, e.done, asks
}

// detour returns how long it may take from the grant of a lease to the next call, which
// probes. If there is none until the next tick, the lease is given back.
func (e *circuit) detour() time.Duration {
	return min(max(0, e.client.timeout()), time.Hour) + min(e.client.every(), time.Hour)
}

// late answers a call that has waited long enough.
func (e *circuit) late(q query, advice backoff.SharedState) backoff.SharedState {
	if e.done != nil && q.probes {
		return backoff.SharedState{}
	}
	return advice
}

// away reports whether there is no store to listen to.
func (e *circuit) away(now time.Time) bool {
	c := e.client
	overdue := e.done != nil && c.timeout() > 0 && now.Sub(e.sent) >= c.timeout()
	return overdue || !e.failed.IsZero() && now.Sub(e.failed) < c.every() || c.guard.State() == backoff.StateOpen
}

// opened takes in that this process found the service down.
func (e *circuit) opened(openFor time.Duration, openings int) {
	e.use()
	e.verdict()
	e.errands.trip = &Trip{By: e.client.id, Voter: e.client.voter(), Open: min(openFor, forever), Openings: openings, Quorum: e.client.quorum()}
	e.errands.lease = 0
	e.overrule = 0
	e.run()
}

// shut takes in that this process found it to be back. If the fleet did not ask it to
// find out, it keeps that to itself.
func (e *circuit) shut(now time.Time) {
	e.use()
	e.verdict()
	e.errands.lease = 0
	if !e.seen.Tripped {
		return
	}
	e.overrule = e.seen.Generation
	if e.leased.After(now) {
		e.errands.reset = e.seen.Generation
		e.run()
	}
	e.leased = time.Time{}
}

func (e *circuit) verdict() { e.free, e.yielding = false, time.Time{} }

// leave gives back a lease that was not used.
func (e *circuit) leave(now time.Time) {
	e.timer.Stop()
	e.errands.load, e.errands.lease = false, 0
	if e.leased.After(now) {
		e.giveBack()
	}
}

func (e *circuit) giveBack() {
	e.leased = time.Time{}
	e.errands.lease = -1
	e.run()
}

// use notes that there are calls.
func (e *circuit) use() {
	e.used = true
	if e.resting {
		e.resting = false
		e.timer.Reset(e.client.every())
	}
}

// worth returns for how long what is known is to be remembered though nobody calls: that
// the circuit is open, or was a moment ago, or this process probing, and what would make
// the process yield for longer than it trusts the fleet.
func (e *circuit) worth(now time.Time) time.Duration {
	if (e.overrule != 0 || !e.yielding.IsZero()) && e.trust < forever {
		return e.trust
	}
	return min(max(e.firm.Sub(now), e.leased.Sub(now)), defaultTrust)
}

// tick ends the time in which nothing was to be asked. The calls that come next ask; if
// none do until the next tick, what is known is forgotten, unless it is worth something.
func (e *circuit) tick() {
	c := e.client
	c.mu.Lock()
	wakes := e.wakes
	e.wakes = nil
	now := time.Now()
	if e.leased.After(now) && !e.probing && !c.closed {
		e.giveBack()
	}
	switch {
	case c.closed:
	case e.used || e.done != nil:
		e.timer.Reset(max(c.every(), e.next.Sub(now)))
	case !e.resting && e.worth(now) > 0:
		e.resting = true
		e.timer.Reset(e.worth(now))
	default:
		delete(c.circuits, e.key)
	}
	e.used = false
	c.mu.Unlock()
	wake(wakes)
}

func wake(breakers []func()) {
	for _, wake := range breakers {
		wake()
	}
}

// run does the errands, unless somebody is doing them.
func (e *circuit) run() {
	if e.done != nil {
		return
	}
	e.done, e.sent = make(chan struct{}), time.Now()
	e.client.depart()
	go e.work()
}

func (e *circuit) work() {
	c := e.client
	defer c.disengage()
	for errand := e.pick(); errand != nil; errand = e.pick() {
		var seen Circuit
		err := c.call(func(ctx context.Context) (err error) {
			seen, err = errand(ctx)
			return err
		})
		wake(e.learn(seen, err))
	}
}

// pick returns the next errand, and nil when there are none.
func (e *circuit) pick() func(context.Context) (Circuit, error) {
	c := e.client
	c.mu.Lock()
	defer c.mu.Unlock()
	errand := e.choose()
	if errand == nil {
		close(e.done)
		e.done = nil
		return nil
	}
	e.sent = time.Now()
	e.next = e.sent.Add(spread(c.every()))
	return errand
}

// choose takes the errand that matters most.
func (e *circuit) choose() func(context.Context) (Circuit, error) {
	store, key, id, todo := e.client.Store, e.key, e.client.id, &e.errands
	switch {
	case todo.trip != nil && !e.at.IsZero():
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
	case todo.load || todo.trip != nil: // who trips says what he has seen
		todo.load = false
		return func(ctx context.Context) (Circuit, error) { return store.Load(ctx, key) }
	}
	return nil
}

// learn takes in what the store said, and returns the breakers that should hear of it.
func (e *circuit) learn(seen Circuit, err error) (wakes []func()) {
	c := e.client
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	close(e.done)
	e.done = make(chan struct{})
	if !e.resting && !c.closed {
		e.timer.Reset(max(0, e.next.Sub(now)))
	}
	if err != nil {
		e.failed = now
		e.errands.load, e.errands.lease = false, 0 // they will be needed again, or not
		if e.at.IsZero() {
			e.errands.trip = nil
		}
		return nil
	}
	e.failed = time.Time{}
	if seen.Generation < e.seen.Generation && now.Before(e.firm) {
		return nil
	}
	if seen.Tripped && !e.seen.Tripped {
		wakes, e.wakes = e.wakes, nil
	}
	if seen.Generation != e.seen.Generation || seen.State() != backoff.StateHalfOpen {
		e.leased = time.Time{}
	}
	if seen.State() == backoff.StateHalfOpen && seen.Mine && seen.Leased > 0 {
		e.leased = e.sent.Add(min(seen.Leased, forever))
		e.probing = false
	}
	e.seen, e.at = seen, now
	e.firm = now.Add(min(seen.Open, e.trust) + c.every())
	return wakes
}
