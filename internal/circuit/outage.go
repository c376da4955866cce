package circuit

import (
	"math"
	"time"
)

const (
	// fewFailures is how many failures in a row say little, whatever happened
	// before them.
	fewFailures = 5
	// hardlyEver is how likely it may be that a service that serves some calls
	// has so many failures in a row.
	hardlyEver = 0.002

	// leastOpen is the least time that a circuit is open.
	leastOpen = 25 * time.Millisecond
	// partOpen is the part of an outage for which a circuit is open after it: as
	// much of the time after the outage is lost at most. It is more of a short one,
	// up to a time that hardly matters.
	partOpen  = 40
	partShort = 4
	mostShort = 330 * time.Millisecond
)

// ServesNone reports whether so many failures in a row mean that a service serves
// nobody. share is the share of calls that failed before them.
func ServesNone(failures uint32, share float64) bool {
	return failures >= fewFailures && math.Pow(share, float64(failures)) < hardlyEver
}

// shareBefore returns the share of failures in the window before a failure that
// it counts.
func (n *Counts) shareBefore() float64 {
	before := n.Dated + n.Bad - min(n.Bad, 1)
	if before == 0 {
		return 0
	}
	return float64(n.Bad-1) / float64(before)
}

// An Outage is what a circuit keeps of its last closed phase, and what it learns
// from the failures since.
type Outage struct {
	Counts // what the window held at the end of the phase

	Trigger Trigger       // of the last opening
	Cause   Score         // of the last opening
	Since   time.Duration // from the last probe to the last opening

	rest     time.Duration // after the last opening for which nobody may wake the circuit
	began    time.Time     // time of the first of the failures in a row
	down     time.Duration // from that to the last opening
	failures uint32        // in a row, with the probes that failed
	share    float64       // of failures in the window before them
	pause    time.Duration // mean time between two calls of the closed phase
}

// ended returns the outage that may begin with the end of a closed phase.
func (l *Live) ended(c *Config, in *Input, row Failures) *Outage {
	o := &Outage{Counts: in.Calls, began: l.Began.Add(row.First), failures: row.InARow, share: row.Share, pause: Forever}
	if n := in.Calls.Dated + in.Calls.Bad; n > 0 && c.WindowCalls <= 0 {
		o.pause = min(in.Age, c.Window) / time.Duration(n)
	}
	return o
}

// keepsOpen returns for how long the service, the fleet or an operator wants the circuit
// open that has changed to the phase p.
func (e *Effects) keepsOpen(p *Phase) time.Duration {
	switch {
	case p.Kind != Open:
		return 0
	case e.Trigger == TriggerManual:
		return Forever
	}
	return p.Span // how long it is open at least, the rest is drawn
}

// opened records that the circuit opens.
func (l *Live) opened(in *Input, e *Effects) {
	o, now := l.Last, l.Began.Add(in.Age)
	o.Trigger, o.Cause, o.Since = e.Trigger, e.Cause, 0
	if e.Trigger == TriggerProbe {
		o.Since = in.Age - l.probes.Newest
		if l.probes.Successes > 0 || o.failures == 0 {
			o.began, o.failures = now, 0
		}
		o.failures++
	}
	o.down = now.Sub(o.began)
}

// OpenFor returns how long the circuit stays open after a failure, where usual is
// the time for a service that serves some calls. It is a part of the time that
// the service has been down, if it cost the service nothing, or the service
// serves nobody. After a timeout it is the time in which so many calls of this program
// would come, at least: a probe may hang, too.
func (o *Outage) OpenFor(usual time.Duration) time.Duration {
	part := min(max(o.down/partOpen, min(o.down/partShort, mostShort), leastOpen), time.Minute)
	none, pause := ServesNone(o.failures, o.share), min(o.pause, time.Second)
	switch {
	case o.Cause == Unsent, o.Cause == Bad && none:
		return part
	case o.Cause == Hung && none:
		return min(usual, max(part, min(2*time.Second, 5*pause)))
	case o.Cause == Hung:
		return min(usual, max(part, min(5*time.Second, 20*pause)))
	}
	return usual
}

// Failed reports whether calls that failed opened the circuit, and no rule of the user.
func (o *Outage) Failed() bool {
	return o.Cause >= Unsent && o.Trigger != TriggerRule && o.Trigger != TriggerSlow
}

// A Row is what a breaker keeps of the times that the circuit opened in a row.
type Row struct {
	Last  time.Duration // how long it was open the last time, for Jitter
	Lease time.Duration // how long a probe keeps others back after that
	Brief int           // how often it was probed early
}

// Usual returns how many of the openings were not brief, and 1 at least.
func (r *Row) Usual(openings int) int { return max(1, openings-r.Brief) }

// LeaseFor returns how long a probe keeps others back, after the circuit was open
// for d.
func LeaseFor(d time.Duration) time.Duration { return max(d, leastOpen) }
