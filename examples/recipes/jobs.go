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
	Created        time.Time
}

const (
	createTables = `CREATE TABLE deliveries (id text PRIMARY KEY, host text NOT NULL, body text NOT NULL,
			failures int NOT NULL DEFAULT 0, due timestamptz NOT NULL DEFAULT now(),
			error text NOT NULL DEFAULT '', created timestamptz NOT NULL DEFAULT now());
		CREATE INDEX ON deliveries (due) WHERE error = '';
		CREATE TABLE holds (host text PRIMARY KEY, until timestamptz NOT NULL)`

	// A worker claims a row for a minute. It saves or removes the row only if no other worker has
	// claimed it since. The attempt is in no transaction.
	claimRow = `UPDATE deliveries SET due = now() + interval '1 minute' WHERE id = (SELECT id FROM deliveries d
		WHERE due <= now() AND error = '' AND NOT EXISTS (SELECT FROM holds WHERE host = d.host AND until > now())
		ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *`
	saveRow   = `UPDATE deliveries SET failures = $3, due = $4, error = $5 WHERE id = $1 AND due = $2`
	removeRow = `DELETE FROM deliveries WHERE id = $1 AND due = $2`

	// No worker of any process claims a row of the host until then.
	holdHost = `INSERT INTO holds VALUES ($1, $2) ON CONFLICT (host)
		DO UPDATE SET until = greatest(holds.until, excluded.until)`

	// The rows of a host that is back are due now, but for those that a worker has claimed.
	freeHost = `UPDATE deliveries SET due = now() WHERE host = $1 AND error = '' AND due > now() + interval '1 minute'`
)

var delivering = backoff.Policy{
	Name:          "webhook",
	MaxAttempts:   10, // 8 to 16 hours in all; one more adds 4 to 8 hours
	Schedule:      backoff.Exponential{Initial: 2 * time.Minute, Max: 8 * time.Hour},
	Jitter:        backoff.EqualJitter,
	MaxRetryAfter: 12 * time.Hour,       // without it, a Retry-After above 5 minutes gives a row up
	Classify:      backoffhttp.Classify, // a 410 or a redirect is permanent
}

const (
	refusedWait = time.Minute        // the least wait of a row that the open circuit of its host refused
	maxAge      = 3 * 24 * time.Hour // a row that is older is given up, also if it was never sent
)

// A worker makes attempts. Several may share the table.
type worker struct {
	receivers *guard.Services // a circuit for each host
	send      func(context.Context, delivery) error
	save      func(d delivery, claimed time.Time)    // by saveRow
	remove    func(delivery)                         // by removeRow, after it was delivered
	hold      func(host string, after time.Duration) // by holdHost; nil means that a restart forgets it
}

// receivers make a circuit for each host, which keeps the Retry-After of the host. A circuit opens
// after 20 answers of 429 or 503, or after five of 503 or refused connections in a row over at
// least a second. Then all rows of the host wait.
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
	switch {
	case err == nil:
		w.remove(j)
	case ctx.Err() == nil: // else this process stops, and the row stays
		w.save(w.after(ctx, j, sent, err), claimed)
	}
}

// after returns a delivery after an attempt that failed, or that an open circuit refused to send.
func (w *worker) after(ctx context.Context, j delivery, sent bool, err error) delivery {
	after, asked := backoff.RetryAfterOf(err) // by the host, or for so long the circuit stays open
	if sent {
		j.Failures++
		if asked && w.hold != nil {
			w.hold(j.Host, min(after, delivering.MaxRetryAfter)) // a nonsense of the server holds no row forever
		}
	}
	next := delivering.Decide(max(j.Failures, 1), err)
	switch {
	case time.Since(j.Created) > maxAge:
		next.Reason = backoff.ReasonElapsed
	case !sent: // the receiver is known to be down: that costs no attempt
		j.Due = time.Now().Add(max(after, refusedWait))
		return j
	case next.Again:
		j.Due = time.Now().Add(next.Wait)
		return j
	}
	j.Error = delivering.GiveUp(ctx, backoff.Error{Attempts: j.Failures, Reason: next.Reason, Last: backoff.Cause(err)}).Error()
	return j
}
