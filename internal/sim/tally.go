package sim

import (
	"time"

	"github.com/gobackoff/backoff"
)

// A tally counts what happens in a run.
type tally struct {
	*engine
	from, to time.Duration // of the figures
	fault    Fault

	seconds []second
	hops    [][]int // attempts of each hop, per second
	tenths  []int   // attempts that reach the service, per 100 ms

	calls, good, lost int   // within the time of the figures
	attempts          []int // of each hop
	onset, onsetCalls int   // attempts at the service, and calls, in the first 10 s of the fault

	reached  int // attempts that reached the service, in the whole run
	begun    int // calls
	answered int // of these, ended well
	failed   int // and badly
	last     time.Duration
	sum      time.Duration
	late     latencies // of calls that ended well within the time of the figures
	all      latencies // in the whole run
	crowd    crowd
	quiet    time.Duration // the crowd counts from here
}

// A second counts what happened in one second.
type second struct{ calls, good, lost, refused, wanted int }

func newTally(s *Scenario, e *engine) *tally {
	n := int((s.Horizon+time.Second-1)/time.Second) + 1
	t := &tally{engine: e, fault: s.Fault, seconds: make([]second, n), tenths: make([]int, 10*n), attempts: make([]int, s.layers())}
	t.from, t.to = s.window()
	for range s.layers() {
		t.hops = append(t.hops, make([]int, n))
	}
	t.quiet = s.Fault.From
	if s.Fault.Down {
		t.quiet = s.Fault.end()
	}
	return t
}

func (t *tally) counts() bool { return t.now >= t.from && t.now < t.to }

func (t *tally) second() *second { return &t.seconds[t.now/time.Second] }

func (t *tally) starting() bool { return t.now >= t.fault.From && t.now-t.fault.From < 10*time.Second }

// dialled counts a call of a user that begins.
func (t *tally) dialled() {
	t.second().calls++
	t.begun++
	if t.counts() {
		t.calls++
	}
	if t.starting() {
		t.onsetCalls++
	}
}

// sent counts an attempt of a layer.
func (t *tally) sent(layer int) {
	t.hops[layer][t.now/time.Second]++
	if t.counts() {
		t.attempts[layer]++
	}
	if layer == len(t.hops)-1 && t.starting() {
		t.onset++
	}
}

// arrived counts an attempt that reaches the service.
func (t *tally) arrived() {
	t.reached++
	t.tenths[t.now/(100*time.Millisecond)]++
	if t.now >= t.quiet {
		t.crowd.add(t.now)
	}
}

// asked counts a retry that was granted.
func (t *tally) asked(layer int) {
	if layer == 0 {
		t.second().wanted++
	}
}

// won counts a call that ended well.
func (t *tally) won(began time.Duration) {
	took := t.now - began
	t.second().good++
	t.answered++
	t.sum += took
	t.last = t.now
	t.all.add(took)
	if t.counts() {
		t.good++
		t.late.add(took)
	}
}

// fell counts a call that did not.
func (t *tally) fell(err error) {
	s := t.second()
	s.lost++
	t.failed++
	if e, ok := err.(*backoff.Error); ok && e.Reason == backoff.ReasonBudget {
		s.refused++
		s.wanted++
	}
	if t.counts() {
		t.lost++
	}
}

// recovery returns how long after the fault a share of what was offered is answered for so
// many seconds, or -1.
func (t *tally) recovery(s *Scenario) time.Duration {
	share, lasting := s.recovered()
	from := int((t.fault.end() + time.Second - 1) / time.Second)
	until := int(s.until() / time.Second)
	if s.Trace != nil { // beyond it nobody calls, and nobody is answered
		until = min(until, int(s.Trace.end()/time.Second))
	}
	steady := 0
	for i := from; i < until; i++ {
		offered := s.Rate
		if offered == 0 {
			offered = float64(t.seconds[i].calls)
		}
		if float64(t.seconds[i].good) < share*offered {
			steady = 0
			continue
		}
		if steady++; steady == lasting {
			return time.Duration(i+1-lasting)*time.Second - t.fault.end()
		}
	}
	return -1
}

// worst returns the highest amplification of a hop in a second.
func (t *tally) worst(hop int, mean float64) (most float64) {
	for i, n := range t.hops[hop] {
		if at := time.Duration(i) * time.Second; at >= t.from && at < t.to {
			most = max(most, float64(n)/max(mean, float64(t.seconds[i].calls)))
		}
	}
	return most
}

// crowd finds the most arrivals in any 100 ms.
type crowd struct {
	recent []time.Duration // a ring
	head   int
	size   int
	most   int
}

func (c *crowd) add(now time.Duration) {
	for c.size > 0 && now-c.recent[c.head] >= 100*time.Millisecond {
		c.head = (c.head + 1) & (len(c.recent) - 1)
		c.size--
	}
	if c.size == len(c.recent) {
		larger := make([]time.Duration, max(64, 2*c.size))
		n := copy(larger, c.recent[c.head:])
		copy(larger[n:], c.recent[:c.head])
		c.recent, c.head = larger, 0
	}
	c.recent[(c.head+c.size)&(len(c.recent)-1)] = now
	c.size++
	c.most = max(c.most, c.size)
}
