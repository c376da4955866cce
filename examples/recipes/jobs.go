package recipes

import (
	"context"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// A delivery is a row of the table.
type delivery struct {
	ID, Host, Body string
	Failures       int       // attempts that have failed
	Due            time.Time // of the next attempt, or when the claim of a worker ends
	Error          string    // why it was given up; "" if it was not
}

// A worker claims a row for a minute. It saves or removes the row only if no other worker has
// claimed it since. The attempt is in no transaction.
const (
	claimRow = `UPDATE deliveries SET due = now() + interval '1 minute' WHERE id = (SELECT id FROM deliveries
		WHERE due <= now() AND error = '' ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *`
	saveRow   = `UPDATE deliveries SET failures = $3, due = $4, error = $5 WHERE id = $1 AND due = $2`
	removeRow = `DELETE FROM deliveries WHERE id = $1 AND due = $2`
)

var delivering = backoff.Policy{
	Name:          "webhook",
	MaxAttempts:   10, // 8 to 16 hours in all; one more adds 4 to 8 hours
	Schedule:      backoff.Exponential{Initial: 2 * time.Minute, Max: 8 * time.Hour},
	Jitter:        backoff.EqualJitter,
	MaxRetryAfter: 12 * time.Hour,       // without it, a Retry-After above 5 minutes gives a row up
	Classify:      backoffhttp.Classify, // a 410 or a redirect is permanent
}

// A worker makes attempts. Several may share the table.
type worker struct {
	receivers *guard.Services // a circuit for each host
	send      func(context.Context, delivery) error
	save      func(d delivery, claimed time.Time) // by saveRow
	remove    func(delivery)                      // by removeRow, after it was delivered
}

// receivers make a circuit for each host, which keeps the Retry-After of the host. A circuit opens
// after 20 answers of 429 or 503, or after five of 503 in a row over at least a second. Then all
// rows of the host wait.
func receivers() *guard.Services {
	return &guard.Services{New: func(host string) *guard.Service {
		return &guard.Service{Name: host, NoBudget: true, MaxRetryAfter: delivering.MaxRetryAfter}
	}}
}

// attempt makes one attempt of a delivery that the worker has claimed.
func (w *worker) attempt(ctx context.Context, j delivery) {
	sent, claimed := false, j.Due
	once := backoff.Policy{Name: "webhook", MaxAttempts: 1, AttemptTimeout: 10 * time.Second}
	err := w.receivers.For(j.Host).Do(guard.WithFailFast(ctx), once, func(ctx context.Context) error {
		sent = true
		return w.send(ctx, j)
	})
	switch next := delivering.Decide(j.Failures+1, err); {
	case err == nil:
		w.remove(j)
		return
	case ctx.Err() != nil:
		return // this process stops, and the row stays
	case !sent: // the receiver is known to be down: that costs no attempt
		after, _ := backoff.RetryAfterOf(err) // for so long the circuit stays open
		j.Due = time.Now().Add(max(after, time.Minute))
	case next.Again:
		j.Failures++
		j.Due = time.Now().Add(next.Wait)
	default:
		j.Failures++
		j.Error = delivering.GiveUp(ctx, backoff.Error{Attempts: j.Failures, Reason: next.Reason, Last: backoff.Cause(err)}).Error()
	}
	w.save(j, claimed)
}
