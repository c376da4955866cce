package circuit

import (
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Usual knows how long a service usually takes to answer. It learns that
// without a lock, and may miss an answer beside another. The zero value knows
// nothing.
type Usual struct {
	mean   atomic.Int64 // of the last answers; 0: not known
	newest atomic.Int64 // when the last answer came, in nanoseconds since loaded
}

// loaded is a moment from which time counts, whatever a clock is set to meanwhile.
var loaded = clock.Now()

// Learn takes in how long a call took that ended now and was answered.
func (u *Usual) Learn(took time.Duration, now time.Time) {
	mean := time.Duration(u.mean.Load())
	if mean == 0 {
		mean = took
	}
	u.mean.Store(int64(max(1, mean+(took-mean)/8)))
	u.newest.Store(int64(now.Sub(loaded)))
}

// takes reports whether the service would have taken longer to answer a call that
// ended now. A call that had up to twice the usual time says nothing either, if
// another call was answered meanwhile.
func (u *Usual) takes(longer time.Duration, now time.Time) bool {
	mean := time.Duration(u.mean.Load())
	return longer < mean || longer < 2*mean && u.newest.Load() >= int64(now.Sub(loaded)-longer)
}

// Hurried reports whether a deadline of the caller ended a call before the service
// would have answered. took is how long it took, or the age of the phase. The
// first such call of a phase makes the calls after it read the clock, and says
// nothing itself if others succeeded.
func (l *Live) Hurried(u *Usual, took time.Duration) bool {
	first := !l.timed.Swap(true)
	l.Path.CompareAndSwap(PathCount, PathTime)
	return first && l.Good.Total() > 0 || u.takes(took, clock.Now())
}
