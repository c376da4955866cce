package guard

import (
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/internal/line"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
)

// retry returns what the policy says of a call whose turn ended with err, while the
// service answered others. A turn has one attempt, and the policy may allow more.
func (w *waiting) retry(t *Turn, err error) (d backoff.Decision) {
	gave, _ := errtree.As[*backoff.Error](err)
	if w.end.IsZero() || t.Own || gave == nil || gave.Reason != backoff.ReasonAttempts {
		return d
	}
	return w.policy.Decide(w.counted(), w.last)
}

// counted is how many attempts count for the retries of the policy. Those that were made while the
// service could not serve the call do not, unless the policy sets a limit.
func (w *waiting) counted() int {
	if w.policy.MaxAttempts != 0 {
		return w.attempts
	}
	return w.attempts - w.before
}

// sleep waits before a retry, and returns how the wait ended.
func (w *waiting) sleep(wait time.Duration) line.End {
	switch {
	case clock.Real().Add(clock.Lasts(wait)).After(w.end):
		return line.TooLong
	case !clock.Sleep(w.ctx, wait):
		return line.Ended
	}
	return line.Went
}

// A retries is the budget of a retry that is the first attempt of its policy.
type retries struct {
	backoff.Budget

	made, most int // attempts of the call
	after      backoff.Class
}

// GrantsFirst implements [backoff.Budget].
func (b *retries) GrantsFirst() bool { return false }

// Reserve implements [backoff.Budget].
func (b *retries) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	a.Number, a.MaxAttempts, a.Class = b.made+1, b.most, b.after
	return b.Budget.Reserve(a)
}
