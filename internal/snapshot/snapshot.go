// Package snapshot is what package backoffmetrics has counted, for package page.
package snapshot

import (
	"strings"
	"unicode/utf8"

	"github.com/gobackoff/backoff"
)

// A Page is the part of package page that a Metrics calls. Its methods are safe
// for concurrent use.
type Page interface {
	// Record may read a Snapshot. It is called before an event is counted,
	// unless that is a success at the first attempt.
	Record()
	// Fail is called with the event of an attempt of an operation that failed.
	Fail(Labels, backoff.Event)
}

// A Reader reads the counters. What is watched has locks of its own, and is read
// only if that is wanted: then Breakers have their present state, and there are
// Budgets and Keys.
type Reader func(watched bool) Snapshot

// A Snapshot is everything that was counted, at one moment. The lists are sorted
// by their names.
type Snapshot struct {
	Operations []Operation
	Breakers   []*Breaker
	Budgets    []Budget
	Keys       []Keys
	Endpoints  []Endpoint
}

const (
	States  = int(backoff.BreakerHalfOpen) + 1
	Reasons = int(backoff.ReasonInvalid) + 1
	Classes = int(backoff.ClassPermanent) + 1
)

// Triggers are those of a transition, in the order in which they are counted.
var Triggers = [...]string{"rate", "consecutive", "slow", "rule", "time", "probe", "manual", "shared"}

// Labels name an operation. The Endpoint is "" if it is not known.
type Labels struct{ Name, Endpoint string }

// An Operation is what policies or hedges of one name have done.
type Operation struct {
	Labels
	First, Retried, Failed  uint64 // calls
	Attempts, Reconnects    uint64
	Won, Lost               uint64 // hedges
	Refused                 [RefusalKinds]uint64
	Retries, FailedAttempts [Classes]uint64
	Failures                [Reasons]uint64 // calls
	PerCall                 Histogram
	Delay, Wait, Slept      Histogram
}

// A Refusal is what a budget refused.
type Refusal int

const (
	RefusedCall Refusal = iota
	RefusedRetry
	RefusedHedge
	RefusedRun
	RefusalKinds = int(RefusedRun) + 1
)

// String returns what was refused.
func (r Refusal) String() string {
	return [RefusalKinds]string{"call", "retry", "hedge", "run"}[r]
}

// A Histogram has the numbers of values in buckets, not added up. The last
// bucket has no bound. Bounds is shared.
type Histogram struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// MaxBuckets is one more than the longest list of bounds.
const MaxBuckets = 18

// A Breaker is what breakers of one name have done. Its State and Mode are those
// of the watched one whose State is the worst.
type Breaker struct {
	Name        string
	State       backoff.BreakerState
	Mode        backoff.BreakerMode        // ModeEnforce if it is not watched
	Last        *backoff.BreakerTransition // without its error; nil if there was none
	Refused     uint64                     // calls
	Transitions [States][States][len(Triggers)]uint64
}

// A Budget is the sum of all watched budgets of one name.
type Budget struct {
	Name string
	backoff.RetryBudgetStats
	PerSecond float64 // the rate of Pacers that slow calls down; 0 while none does
	AtOnce    float64 // the limits of attempts at once; 0 while there is none
	Waiting   int     // calls
}

// Keys says how many keys of services were forgotten for others.
type Keys struct {
	Name      string
	Evictions uint64
}

// An Endpoint is what the attempts at all endpoints of one name did.
type Endpoint struct {
	Name              string
	InFlight          int
	Succeeded, Failed Histogram
	Breakers          []string // their names
}

// AttemptFailed reports whether e is the event of an attempt that failed, or of a
// supervised run that did.
func AttemptFailed(e *backoff.Event) bool {
	switch e.Kind {
	case backoff.EventRetry:
		return true
	case backoff.EventReconnect:
		return e.Err != nil
	case backoff.EventGiveUp:
		return e.Attempt > 0 && !e.Waiting
	}
	return false
}

// What Label returns for a name that is missing, and for one that is too long.
const (
	Unnamed = "unnamed"
	Other   = "other"
	MaxName = 200 // bytes
)

// Label returns the name that is shown. Prometheus treats an empty label as a
// missing one, and rejects a whole scrape because of a byte that is not UTF-8.
func Label(name string) string {
	switch {
	case name == "":
		return Unnamed
	case len(name) > MaxName:
		return Other
	case !utf8.ValidString(name):
		return strings.ToValidUTF8(name, "\uFFFD")
	}
	return name
}
