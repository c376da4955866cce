// Package sim runs fleets of clients against a service in virtual time, and
// measures what their policies do to it:
//
//	clients := []sim.Client{sim.None(), sim.Naive(), sim.Default()}
//	results, err := sim.Compare(sim.Dip(), clients, sim.Options{Seeds: 5})
//
// It has no policy of its own. Each simulated call is a [backoff.Run] under the
// user's [backoff.Policy], with its budget and breaker, and the simulation
// calls the methods that a real loop calls. Only the clock and the sleeping are
// replaced. One goroutine drives all clients, so a seed determines every
// number.
package sim

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// An engine runs events in virtual time. Many events are scheduled for the
// present instant. Only the others need a heap.
type engine struct {
	now       time.Duration
	immediate queue // events of this instant
	heap      heap
	sequence  uint64        // of the event scheduled last
	handled   int           // events so far
	since     time.Duration // the beginning of the present span
	inSpan    int           // events since then

	rand    *rand.Rand // for clients
	traffic *rand.Rand // for arrivals, so that they are the same for all clients
	work    *rand.Rand // for the service
}

// running lets one simulation at a time set the clock.
var running sync.Mutex

// epoch is when a simulation begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func newEngine(seed uint64) *engine {
	return &engine{
		rand:    rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)),
		traffic: rand.New(rand.NewPCG(seed, 0xbf58476d1ce4e5b9)),
		work:    rand.New(rand.NewPCG(seed, 0x94d049bb133111eb)),
	}
}

// run calls start and then handles events until none is left or the next one is
// later than until. A client may retry without end, or nearly so, at a service
// that answers at once: then run returns an error.
func (e *engine) run(until time.Duration, start func()) error {
	running.Lock()
	defer running.Unlock()
	clock.Source = func() time.Time { return epoch.Add(e.now) }
	defer func() { clock.Source = nil }()
	start()
	for {
		next, ok := e.next(until)
		if !ok {
			return nil
		}
		if e.inSpan > maxInSpan || e.handled > maxEvents {
			return errEndless
		}
		next.actor.handle(next.kind)
	}
}

// maxInSpan is how many events may happen within a span. After more of them time
// hardly advances any more.
var maxInSpan = 10_000_000

// A span is the time in which events are counted.
const span = 10 * time.Millisecond

// maxEvents is how many events a simulation may have. It is reached in some
// minutes.
var maxEvents = 1_000_000_000

var errEndless = errors.New("calls are repeated without end, or too often to be simulated: want longer delays, fewer attempts or a shorter -horizon")

// next removes the next event and returns it, if it happens by until.
func (e *engine) next(until time.Duration) (event, bool) {
	if e.immediate.size == 0 && (len(e.heap) == 0 || e.heap[0].at > until) {
		return event{}, false
	}
	e.handled++
	e.inSpan++
	if e.immediate.size > 0 {
		return e.immediate.pop(), true
	}
	next := e.heap.pop()
	if e.now = next.at; e.now-e.since >= span {
		e.since, e.inSpan = e.now, 0
	}
	return next, true
}

// after schedules an event for an actor in d from now.
func (e *engine) after(d time.Duration, a actor, kind int) {
	if d <= 0 {
		e.immediate.push(event{at: e.now, actor: a, kind: kind})
		return
	}
	e.sequence++
	e.heap.push(event{at: e.now + min(d, forever-e.now), sequence: e.sequence, actor: a, kind: kind})
}

// forever is a time that no simulation reaches.
const forever = time.Duration(1<<63 - 1)

// An actor handles the events that are scheduled for it. Each type of actor
// defines its own kinds of event.
type actor interface{ handle(kind int) }

// An event is what an actor handles at a time.
type event struct {
	at       time.Duration
	sequence uint64 // orders events of the same time
	actor    actor
	kind     int
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.sequence < other.sequence
}

// A queue holds events, first in, first out, in a ring buffer whose length is a
// power of two.
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

// A heap holds events, the earliest first. That of container/heap would box
// every event. A node has four children: the heap is half as deep as a binary
// one, and siblings are adjacent in memory.
type heap []event

func (s *heap) push(e event) {
	h := append(*s, e)
	i := len(h) - 1
	for ; i > 0 && e.before(&h[(i-1)/4]); i = (i - 1) / 4 {
		h[i] = h[(i-1)/4]
	}
	h[i] = e
	*s = h
}

func (s *heap) pop() event {
	h := *s
	first, last := h[0], h[len(h)-1]
	*s = h[:len(h)-1]
	if len(*s) > 0 {
		s.replace(last)
	}
	return first
}

// replace removes the earliest event and adds e.
func (s heap) replace(e event) {
	i := 0
	for {
		child := s.earliest(4*i + 1)
		if child >= len(s) || !s[child].before(&e) {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = e
}

// earliest returns the index of the earliest of the four siblings that begin at
// child.
func (s heap) earliest(child int) int {
	end := min(child+4, len(s))
	for other := child + 1; other < end; other++ {
		if s[other].before(&s[child]) {
			child = other
		}
	}
	return child
}
