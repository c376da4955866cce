// Package sim runs fleets of clients against a service in virtual time, to see what
// their policies do to it.
//
// It holds no policy of its own: each simulated call is a [backoff.Run], under the
// user's [backoff.Policy] with its budget and breaker, asked by the very methods a real
// loop asks. Only the clock is replaced, and the sleeping. One goroutine drives all the
// clients, so a seed fixes every number.
package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// An engine orders events in virtual time. Most events come in the order of their times, or
// happen at once; only those that do not are worth a heap.
type engine struct {
	now   time.Duration
	soon  queue // happen now
	line  queue // in the order of their times
	heap  events
	order uint64
	still int // events in a row without a step in time

	rand    *rand.Rand // of the clients
	traffic *rand.Rand // of the arrivals, which so are the same for all clients
	work    *rand.Rand // of the service
}

// running keeps two simulations from setting the clock at once.
var running sync.Mutex

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func newEngine(seed uint64) *engine {
	return &engine{
		rand:    rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)),
		traffic: rand.New(rand.NewPCG(seed, 0xbf58476d1ce4e5b9)),
		work:    rand.New(rand.NewPCG(seed, 0x94d049bb133111eb)),
	}
}

// drive calls start, and then every event that follows from it, until none is left or the
// time is up. It reports whether time went on, as it does not where a client tries again
// for ever at a service that answers at once.
func (e *engine) drive(until time.Duration, start func()) bool {
	running.Lock()
	defer running.Unlock()
	clock.Source = func() time.Time { return epoch.Add(e.now) }
	defer func() { clock.Source = nil }()
	start()
	for {
		next, ok := e.next(until)
		if !ok || e.still > mostStill {
			return !ok
		}
		next.actor.happen(next.what)
	}
}

// mostStill is after how many events without a step in time none is expected any more.
var mostStill = 10_000_000

// next takes the next event that happens within the time.
func (e *engine) next(until time.Duration) (event, bool) {
	if e.soon.size > 0 {
		e.still++
		return e.soon.pop(), true
	}
	from := &e.line
	ofLine := e.line.size > 0 && (len(e.heap) == 0 || e.line.first().before(&e.heap[0]))
	var next event
	switch {
	case ofLine && from.first().at <= until:
		next = from.pop()
	case !ofLine && len(e.heap) > 0 && e.heap[0].at <= until:
		next = e.heap.pop()
	default:
		return event{}, false
	}
	if next.at > e.now {
		e.still = 0
	}
	e.now = next.at
	return next, true
}

// after makes something happen to an actor once d has passed.
func (e *engine) after(d time.Duration, a actor, what int) {
	if d <= 0 {
		e.soon.push(event{at: e.now, actor: a, what: what})
		return
	}
	e.order++
	e.heap.push(event{at: e.now + min(d, forever-e.now), order: e.order, actor: a, what: what})
}

// inTurn is after for events that mostly come in the order of their times.
func (e *engine) inTurn(d time.Duration, a actor, what int) {
	at := e.now + min(d, forever-e.now)
	if d <= 0 || e.line.size > 0 && at < e.line.last().at {
		e.after(d, a, what)
		return
	}
	e.order++
	e.line.push(event{at: at, order: e.order, actor: a, what: what})
}

const forever = time.Duration(1<<63 - 1)

// An actor is whom events happen to. Of what kind they are is between him and himself.
type actor interface{ happen(what int) }

type event struct {
	at    time.Duration
	order uint64 // among events of the same time
	actor actor
	what  int
}

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

// queue is first in, first out. Its buffer is a power of two long.
type queue struct {
	buffer     []event
	head, size int
}

func (q *queue) first() *event { return &q.buffer[q.head] }

func (q *queue) last() *event { return &q.buffer[(q.head+q.size-1)&(len(q.buffer)-1)] }

func (q *queue) push(e event) {
	if q.size == len(q.buffer) {
		q.grow()
	}
	q.size++
	*q.last() = e
}

func (q *queue) grow() {
	larger := make([]event, max(64, 2*q.size))
	n := copy(larger, q.buffer[q.head:])
	copy(larger[n:], q.buffer[:q.head])
	q.buffer, q.head = larger, 0
}

func (q *queue) pop() event {
	e := q.buffer[q.head]
	q.head = (q.head + 1) & (len(q.buffer) - 1)
	q.size--
	return e
}

// events is a heap. That of container/heap would box every event.
type events []event

func (s *events) push(e event) {
	h := append(*s, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	*s = h
}

func (s *events) pop() event {
	h := *s
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*s = h
	if len(h) > 0 {
		h.sink(last)
	}
	return first
}

// sink puts e where it belongs, beginning at the top. A node has four children: the heap is
// half as deep, and they lie side by side.
func (s events) sink(e event) {
	i := 0
	for {
		child := s.least(4*i + 1)
		if child >= len(s) || !s[child].before(&e) {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = e
}

// least returns the first of four siblings.
func (s events) least(child int) int {
	end := min(child+4, len(s))
	for other := child + 1; other < end; other++ {
		if s[other].before(&s[child]) {
			child = other
		}
	}
	return child
}
