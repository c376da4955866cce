// Package sim runs fleets of clients against a service in virtual time, to see what
// their policies do to it.
//
// It holds no policy of its own: each simulated call is a [backoff.Run], under the
// user's [backoff.Policy] with its budget, asked by the very methods a real loop
// asks. Only the clock is replaced, and the sleeping. One goroutine drives all the
// clients, so a seed fixes every number.
package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// An engine orders events in virtual time.
type engine struct {
	now    time.Duration
	events events
	order  uint64
	rand   *rand.Rand
}

// running keeps two simulations from setting the clock at once.
var running sync.Mutex

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// simulate calls start, and then every event that follows from it, until none is left or the
// time is up.
func simulate(seed uint64, until time.Duration, start func(*engine)) {
	running.Lock()
	defer running.Unlock()
	e := &engine{rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
	clock.Source = func() time.Time { return epoch.Add(e.now) }
	defer func() { clock.Source = nil }()
	start(e)
	for len(e.events) > 0 && e.events[0].at <= until {
		next := e.events.pop()
		e.now = next.at
		next.actor.happen(next.what)
	}
}

// after makes something happen to an actor once d has passed.
func (e *engine) after(d time.Duration, a actor, what int) {
	e.order++
	e.events.push(event{at: e.now + d, order: e.order, actor: a, what: what})
}

// exponential draws from the exponential distribution with the given mean.
func (e *engine) exponential(mean time.Duration) time.Duration {
	return time.Duration(e.rand.ExpFloat64() * float64(mean))
}

// An actor is whom events happen to. Of what kind they are is between him and himself.
type actor interface{ happen(what int) }

type event struct {
	at    time.Duration
	order uint64 // among events of the same time
	actor actor
	what  int
}

func (a event) before(b event) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

// events is a heap. That of container/heap would box every event.
type events []event

func (s *events) push(e event) {
	h := append(*s, e)
	i := len(h) - 1
	for parent := (i - 1) / 2; i > 0 && e.before(h[parent]); parent = (i - 1) / 2 {
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	*s = h
}

func (s *events) pop() event {
	h := *s
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{}
	h = h[:len(h)-1]
	*s = h
	if len(h) > 0 {
		h.sink(last)
	}
	return first
}

// sink puts e where it belongs, beginning at the top.
func (s events) sink(e event) {
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(s) && s[child+1].before(s[child]) {
			child++
		}
		if child >= len(s) || !s[child].before(e) {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = e
}
