package sim

import (
	"cmp"
	"time"

	"github.com/gobackoff/backoff"
)

// A tally counts what happens in a run. The window is the time from from to to,
// which most figures cover.
type tally struct {
	*engine
	from, to time.Duration
	fault    Fault

	// patience is how long a call may be under way when the figures end. One
	// that has been under way for longer is lost.
	patience time.Duration

	seconds []secondCounts
	hops    [][]int // attempts of each hop, per second
	tenths  []int   // attempts that reach the service, per 100 ms

	calls, good, lost int   // in the window: started, succeeded and failed
	attempts          []int // of each hop, in the window
	onset, onsetCalls int   // attempts at the service, and calls, at the onset of the fault

	// The following are of the whole run.
	arrivals     int // attempts that reached the service
	throttled    int // those that were answered with "too much"
	succeeded    int
	unanswered   int // calls under way at the end
	lastSuccess  time.Duration
	totalLatency time.Duration
	latencies    latencyHistogram // of the calls that succeeded in the window or were under way at its end
	allLatencies latencyHistogram // of all calls that succeeded or were under way at the end
	peak         peakCounter      // of the arrivals from peakFrom on
	peakFrom     time.Duration
}

// secondCounts counts what happened in one second: calls that started,
// succeeded and failed, calls whose retry the budget refused, and retries that
// the budget was asked for.
type secondCounts struct{ calls, good, lost, refused, asked int }

func newTally(s *Scenario, e *engine) *tally {
	n := int((s.Horizon+time.Second-1)/time.Second) + 1
	t := &tally{engine: e, fault: s.Fault, patience: max(time.Second, s.Timeout),
		seconds: make([]secondCounts, n), tenths: make([]int, 10*n), attempts: make([]int, s.layers())}
	t.from, t.to = s.window()
	for range s.layers() {
		t.hops = append(t.hops, make([]int, n))
	}
	t.peakFrom = s.Fault.From
	if s.Fault.Down {
		t.peakFrom = s.Fault.end()
	}
	return t
}

// inWindow reports whether the figures cover the present.
func (t *tally) inWindow() bool { return t.now >= t.from && t.now < t.to }

// second returns the counts of the present second.
func (t *tally) second() *secondCounts { return &t.seconds[t.now/time.Second] }

// atOnset reports whether the fault began less than 10 s ago.
func (t *tally) atOnset() bool { return t.now >= t.fault.From && t.now-t.fault.From < 10*time.Second }

// countCall counts a call of a user that begins.
func (t *tally) countCall() {
	t.second().calls++
	if t.inWindow() {
		t.calls++
	}
	if t.atOnset() {
		t.onsetCalls++
	}
}

// countAttempt counts an attempt that a layer sends.
func (t *tally) countAttempt(layer int) {
	t.hops[layer][t.now/time.Second]++
	if t.inWindow() {
		t.attempts[layer]++
	}
	if layer == len(t.hops)-1 && t.atOnset() {
		t.onset++
	}
}

// countArrival counts an attempt that reaches the service.
func (t *tally) countArrival() {
	t.arrivals++
	t.tenths[t.now/(100*time.Millisecond)]++
	if t.now >= t.peakFrom {
		t.peak.add(t.now)
	}
}

// countGrantedRetry counts a retry that the budget of a layer has granted.
func (t *tally) countGrantedRetry(layer int) {
	if layer == 0 {
		t.second().asked++
	}
}

// countSuccess counts a call that has succeeded.
func (t *tally) countSuccess(began time.Duration) {
	took := t.now - began
	t.second().good++
	t.succeeded++
	t.totalLatency += took
	t.lastSuccess = t.now
	t.allLatencies.add(took)
	if t.inWindow() {
		t.good++
		t.latencies.add(took)
	}
	t.countLate(began)
}

// countFailure counts a call that has failed.
func (t *tally) countFailure(began time.Duration, err error) {
	s := t.second()
	s.lost++
	if e, ok := err.(*backoff.Error); ok && e.Reason == backoff.ReasonBudget {
		s.refused++
		s.asked++
	}
	if t.inWindow() {
		t.lost++
	}
	t.countLate(began)
}

// countLate counts a call that ends after the window, if it was under way at
// the end of the window for too long.
func (t *tally) countLate(began time.Duration) {
	if t.now >= t.to && t.to-began > t.patience {
		t.lost++
		t.latencies.add(t.to - began)
	}
}

// countUnanswered counts a call that is under way at the end of the run, if it
// has been for too long. The time that it has taken so far counts.
func (t *tally) countUnanswered(began, horizon time.Duration) {
	took := horizon - began
	if took > t.patience {
		t.seconds[(horizon-1)/time.Second].lost++
		t.unanswered++
		t.totalLatency += took
		t.allLatencies.add(took)
	}
	if took := min(t.to, horizon) - began; took > t.patience {
		t.lost++
		t.latencies.add(took)
	}
}

// recovery returns the time from the end of the fault until enough of the
// offered calls succeed for long enough, or -1 if they never do.
func (t *tally) recovery(s *Scenario) time.Duration {
	share := cmp.Or(s.Recovered, 0.9)
	const lasting = 5 // seconds
	from := int((t.fault.end() + time.Second - 1) / time.Second)
	until := int(s.until() / time.Second)
	if s.Trace != nil { // there are no calls after the end of the trace
		until = min(until, int(s.Trace.end()/time.Second))
	}
	steady := 0
	for i := from; i < until; i++ {
		offered := cmp.Or(s.Rate, float64(t.seconds[i].calls))
		good := float64(t.seconds[i].good)
		if offered == 0 && good == 0 { // says nothing about the service
			continue
		}
		if good < share*offered {
			steady = 0
			continue
		}
		if steady++; steady == lasting {
			return time.Duration(i+1-lasting)*time.Second - t.fault.end()
		}
	}
	return -1
}

// peakAmplification returns the highest amplification of a hop in one second,
// relative to the mean rate of calls or the rate of that second, whichever is
// higher.
func (t *tally) peakAmplification(hop int, mean float64) (most float64) {
	for i, n := range t.hops[hop] {
		if at := time.Duration(i) * time.Second; at >= t.from && at < t.to {
			most = max(most, float64(n)/max(mean, float64(t.seconds[i].calls)))
		}
	}
	return most
}

// A peakCounter finds the most arrivals in any 100 ms. Those within a
// microsecond count as one event of that kind, so that it stays small.
type peakCounter struct {
	recent      queue // of the last 100 ms; kind is how many arrived
	count, most int
}

func (c *peakCounter) add(now time.Duration) {
	for c.recent.size > 0 && now-c.recent.first().at >= 100*time.Millisecond {
		c.count -= c.recent.pop().kind
	}
	if c.recent.size == 0 || now-c.recent.last().at >= time.Microsecond {
		c.recent.push(event{at: now})
	}
	c.recent.last().kind++
	c.count++
	c.most = max(c.most, c.count)
}
