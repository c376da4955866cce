package presets

import (
	"cmp"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	sliding "github.com/gobackoff/backoff/internal/window"
)

// SREBudget is the per-client retry budget of the Google SRE book: a retry is
// sent as long as retries are below a Ratio of the requests of the last Window.
// Requests are first attempts, which is the stricter reading.
//
// The book names no window and no floor. The 2 minutes are those of its
// adaptive throttling. The retries that are always allowed are this library's,
// for a client that has just started or makes few calls. Requests pay for this
// budget. So it adds its tenth to an outage for as long as the outage lasts,
// and allows a burst of 12 seconds' worth of requests when the outage begins.
//
// The window moves by tenths. Retries count for a whole window at least, and
// requests for one at most, so there are never more retries than allowed. It is
// safe for concurrent use; its fields must not be changed after first use. Done
// matters only for an attempt that was not sent; a second Done changes nothing.
//
// Source: Google SRE book, "Handling Overload", "Deciding to Retry".
type SREBudget struct {
	// Ratio is the number of retries per request, 0 or more.
	Ratio float64
	// Window is the time in which requests and retries count, more than 0.
	Window time.Duration
	// MinRetries is how many retries are always allowed in each MinInterval, 0
	// or more.
	MinRetries int
	// MinInterval is the time in which MinRetries are counted, more than 0.
	MinInterval time.Duration

	ratioWindow
}

// NewSREBudget returns the budget with a ratio of 10 % over 2 minutes, and a
// retry every 10 s.
func NewSREBudget() *SREBudget {
	return &SREBudget{Ratio: 0.1, Window: 2 * time.Minute, MinRetries: 1, MinInterval: 10 * time.Second}
}

// Reserve implements [backoff.Budget].
func (b *SREBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return b.reserve(a, b.Window, b.MinInterval, func(requests, retries, recent uint64) bool {
		return retries*1e6 < requests*millionths(b.Ratio) || recent < uint64(b.MinRetries)
	})
}

// Validate returns an error that names a field out of its range.
func (b *SREBudget) Validate() error {
	if b == nil {
		return missing("SREBudget")
	}
	return cmp.Or(
		check(b.Ratio >= 0 && b.Ratio <= 1000, "SREBudget.Ratio", b.Ratio, "0 to 1000"),
		check(b.Window > 0, "SREBudget.Window", b.Window, "more than 0"),
		check(b.MinRetries >= 0, "SREBudget.MinRetries", b.MinRetries, "0 or more"),
		check(b.MinInterval > 0, "SREBudget.MinInterval", b.MinInterval, "more than 0"),
	)
}

// DotNetBudget is the retry budget of .NET's HTTP resilience: the retries in a
// sliding window stay below RetryRatio of its requests, rounded down, but one
// per window is always allowed. If there are fewer than MinimumThroughput
// requests, and RetryRatio is not 0, nothing is limited.
//
// The documentation does not say what a request is, nor how the window moves.
// Here requests are calls, without their retries, and the window moves by
// tenths, as in [SREBudget]. For concurrency and Done see SREBudget too.
//
// Source: Microsoft.Extensions.Http.Resilience, HttpRetryBudgetOptions, .NET 11
// preview.
type DotNetBudget struct {
	// RetryRatio is 0 to 1; 0 means no retries.
	RetryRatio float64
	// SamplingDuration is 1 s to a day.
	SamplingDuration time.Duration
	// MinimumThroughput is 1 or more.
	MinimumThroughput int

	ratioWindow
}

// NewDotNetBudget returns the budget with its defaults: 0.1, 10 s, 10.
func NewDotNetBudget() *DotNetBudget {
	return &DotNetBudget{RetryRatio: 0.1, SamplingDuration: 10 * time.Second, MinimumThroughput: 10}
}

// Reserve implements [backoff.Budget].
func (b *DotNetBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return b.reserve(a, b.SamplingDuration, b.SamplingDuration, func(requests, retries, _ uint64) bool {
		if b.RetryRatio == 0 {
			return false
		}
		return requests < uint64(b.MinimumThroughput) || retries < max(1, requests*millionths(b.RetryRatio)/1e6)
	})
}

// Validate returns an error that names a field out of its range.
func (b *DotNetBudget) Validate() error {
	if b == nil {
		return missing("DotNetBudget")
	}
	return cmp.Or(
		check(b.RetryRatio >= 0 && b.RetryRatio <= 1, "DotNetBudget.RetryRatio", b.RetryRatio, "0 to 1"),
		check(b.SamplingDuration >= time.Second && b.SamplingDuration <= 24*time.Hour, "DotNetBudget.SamplingDuration", b.SamplingDuration, "1s to 24h"),
		check(b.MinimumThroughput >= 1, "DotNetBudget.MinimumThroughput", b.MinimumThroughput, "1 or more"),
	)
}

// KubernetesBudget is the RetryConstraint of the Kubernetes Gateway API: of all
// requests in an Interval, Percent may be retries. MinRetryCount retries are
// always allowed in each MinRetryInterval. Each retry of a request counts by
// itself. Of 1000 requests 200 may be retries, so there are 200 retries for 800
// calls.
//
// The specification leaves the way of counting to the implementation. Here
// windows move by tenths, as in [SREBudget]. For concurrency and Done see
// SREBudget too.
//
// Source: GEP-3388; XBackendTrafficPolicy, apisx/v1alpha1.
type KubernetesBudget struct {
	// Percent is 0 to 100.
	Percent int
	// Interval is 1 s to an hour.
	Interval time.Duration
	// MinRetryCount is 0 or more.
	MinRetryCount int
	// MinRetryInterval is more than 0.
	MinRetryInterval time.Duration

	ratioWindow
}

// NewKubernetesBudget returns the constraint with its defaults: 20 % over 10 s,
// and 10 per second.
func NewKubernetesBudget() *KubernetesBudget {
	return &KubernetesBudget{Percent: 20, Interval: 10 * time.Second, MinRetryCount: 10, MinRetryInterval: time.Second}
}

// Reserve implements [backoff.Budget].
func (b *KubernetesBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return b.reserve(a, b.Interval, b.MinRetryInterval, func(requests, retries, recent uint64) bool {
		return retries*100 < (requests+retries)*uint64(b.Percent) || recent < uint64(b.MinRetryCount)
	})
}

// Validate returns an error that names a field out of its range.
func (b *KubernetesBudget) Validate() error {
	if b == nil {
		return missing("KubernetesBudget")
	}
	return cmp.Or(
		check(b.Percent >= 0 && b.Percent <= 100, "KubernetesBudget.Percent", b.Percent, "0 to 100"),
		check(b.Interval >= time.Second && b.Interval <= time.Hour, "KubernetesBudget.Interval", b.Interval, "1s to 1h"),
		check(b.MinRetryCount >= 0, "KubernetesBudget.MinRetryCount", b.MinRetryCount, "0 or more"),
		check(b.MinRetryInterval > 0, "KubernetesBudget.MinRetryInterval", b.MinRetryInterval, "more than 0"),
	)
}

// A ratioWindow counts requests and retries in one sliding window, and retries
// in another.
type ratioWindow struct {
	backoff.BudgetDefaults

	mu     sync.Mutex
	ledger ledger
	ring   sliding.Ring // Other: first attempts; Bad: retries
	short  sliding.Ring // Bad: retries
}

// reserve counts an attempt. It refuses a retry unless allow says so.
func (w *ratioWindow) reserve(a backoff.Attempt, long, short time.Duration, allow func(requests, retries, recent uint64) bool) (backoff.Ticket, time.Duration, bool) {
	now := a.Time()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ring.Advance(now, long, 0)
	w.short.Advance(now, short, 0)
	if a.First() {
		w.ring.Add(sliding.Other, 1)
		return w.ledger.add(w.note(0)), 0, true
	}
	if !allow(w.ring.Least(sliding.Other), w.ring.Most(sliding.Bad), w.short.Most(sliding.Bad)) {
		return backoff.Ticket{}, 0, false
	}
	w.ring.Add(sliding.Bad, 1)
	w.short.Add(sliding.Bad, 1)
	return w.ledger.add(w.note(1)), 0, true
}

// note returns the note of an attempt: the lower 31 bits of the numbers of its
// buckets, and whether it was a retry.
func (w *ratioWindow) note(retry uint64) uint64 {
	const lower = 1<<31 - 1
	return uint64(w.ring.Bucket())&lower<<32 | uint64(w.short.Bucket())&lower<<1 | retry
}

// Done implements [backoff.Budget].
func (w *ratioWindow) Done(t backoff.Ticket, r backoff.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	note, ok := w.ledger.remove(t)
	if !ok || r.Outcome != backoff.OutcomeNotSent {
		return
	}
	kind := sliding.Other
	if note&1 == 1 {
		kind = sliding.Bad
		w.short.Remove(kind, 1, bucketNumber(note>>1, w.short.Bucket()))
	}
	w.ring.Remove(kind, 1, bucketNumber(note>>32, w.ring.Bucket()))
}

// bucketNumber returns the highest number up to now whose lower 31 bits are
// those of note.
func bucketNumber(note uint64, now int64) int64 {
	const lower = 1<<31 - 1
	return now - int64((uint64(now)-note)&lower)
}

// stats returns the counts at this moment.
func (w *ratioWindow) stats(long time.Duration) (requests, retries uint64) {
	now := clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ring.Advance(now, long, 0)
	return w.ring.Least(sliding.Other), w.ring.Most(sliding.Bad)
}

// Stats returns how many requests and retries have been counted.
func (b *SREBudget) Stats() (requests, retries uint64) { return b.stats(b.Window) }

// Stats returns how many requests and retries have been counted.
func (b *DotNetBudget) Stats() (requests, retries uint64) { return b.stats(b.SamplingDuration) }

// Stats returns how many requests and retries have been counted.
func (b *KubernetesBudget) Stats() (requests, retries uint64) { return b.stats(b.Interval) }
