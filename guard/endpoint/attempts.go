package endpoint

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// Bounds are the upper bounds of the buckets of a [Durations], in seconds. They
// are those that OpenTelemetry recommends for the durations of requests, and
// three larger ones.
func Bounds() []float64 { return slices.Clone(bounds) }

var bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300}

const buckets = 18 // of bounds, and one without a bound

// Attempts says what the attempts at an endpoint did since the start of the
// program.
type Attempts struct {
	InFlight  int       // attempts that are under way now
	Succeeded Durations // of attempts that returned no error
	Failed    Durations // of attempts that returned an error, or panicked
}

// Durations is a histogram of durations.
type Durations struct {
	Counts []uint64 // one for each of [Bounds], and one for what is longer
	Sum    float64  // in seconds
}

// Count returns how many durations there are.
func (d Durations) Count() (n uint64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// Quantile returns an estimate of the duration that a share q of all durations
// does not exceed, in seconds: it interpolates within a bucket. It returns NaN
// without durations, and the last bound if the quantile is beyond that.
func (d Durations) Quantile(q float64) float64 {
	all := d.Count()
	if all == 0 {
		return math.NaN()
	}
	rank, below, lower := q*float64(all), 0.0, 0.0
	for i, upper := range bounds {
		if n := float64(d.Counts[i]); n > 0 && below+n >= rank {
			return lower + (upper-lower)*math.Max(0, rank-below)/n
		}
		below, lower = below+float64(d.Counts[i]), upper
	}
	return lower
}

// durations counts durations in buckets.
type durations struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Int64 // in units of sumUnit
}

// sumUnit is precise enough for attempts, and large enough that their sum does
// not overflow: that of nanoseconds would within months of 1,000 long polls at a
// time.
const sumUnit = 50 * time.Nanosecond

func (d *durations) add(took time.Duration) {
	i, _ := slices.BinarySearch(bounds, took.Seconds())
	d.counts[i].Add(1)
	d.sum.Add(int64((took + sumUnit/2) / sumUnit))
}

func (d *durations) read() Durations {
	r := Durations{Counts: make([]uint64, buckets), Sum: float64(d.sum.Load()) * sumUnit.Seconds()}
	for i := range r.Counts {
		r.Counts[i] = d.counts[i].Load()
	}
	return r
}

// Attempts returns what the measured attempts did.
func (e *Endpoint) Attempts() Attempts {
	return Attempts{InFlight: int(e.inFlight.Load()), Succeeded: e.succeeded.read(), Failed: e.failed.read()}
}

// Do makes one attempt, and measures it: that it is under way, how long it
// takes, and whether it fails. So an Endpoint is a [backoff.Doer]. It costs two
// readings of the clock, and no allocation. The Transport of backoffhttp and the
// interceptors of backoffgrpc measure their attempts themselves.
func (e *Endpoint) Do(ctx context.Context, op func(context.Context) error) error {
	e.inFlight.Add(1)
	began, result := clock.Now(), errPanicked
	defer func() {
		e.inFlight.Add(-1)
		ended := &e.succeeded
		if result != nil {
			ended = &e.failed
		}
		ended.add(clock.Since(began))
	}()
	result = op(ctx)
	return result
}

// errPanicked stands for the error of an attempt that returned none.
var errPanicked = errors.New("panicked")
