package foreign

import (
	"cmp"
	"math"
	"time"

	"github.com/gobackoff/backoff"
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
	backoff.BudgetDefaults

	// Ratio is the number of retries per request, 0 or more.
	Ratio float64
	// Window is the time in which requests and retries count, more than 0.
	Window time.Duration
	// MinRetries is how many retries are always allowed in each MinInterval, 0
	// or more.
	MinRetries int
	// MinInterval is the time in which MinRetries are counted, more than 0.
	MinInterval time.Duration

	counts share
}

// NewSREBudget returns the budget with a ratio of 10 % over 2 minutes, and a
// retry every 10 s.
func NewSREBudget() *SREBudget {
	return &SREBudget{Ratio: 0.1, Window: 2 * time.Minute, MinRetries: 1, MinInterval: 10 * time.Second}
}

// Reserve implements [backoff.Budget].
func (b *SREBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return b.counts.reserve(a, b.Window, b.MinInterval, func(requests, retries, recent uint64) bool {
		return retries*1e6 < requests*millionths(b.Ratio) || recent < uint64(b.MinRetries)
	})
}

// Done implements [backoff.Budget].
func (b *SREBudget) Done(t backoff.Ticket, r backoff.Result) { b.counts.done(t, r) }

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

// Stats returns how many requests and retries have been counted.
func (b *SREBudget) Stats() (requests, retries uint64) { return b.counts.stats(b.Window) }

// millionths returns a share as a whole number. In floating point, 100 * 0.29
// is less than 29.
func millionths(share float64) uint64 { return uint64(math.Round(max(0, share) * 1e6)) }
