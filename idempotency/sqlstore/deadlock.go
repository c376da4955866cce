package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
)

// deadlocks is the policy for a single statement. Databases end one of several
// statements that wait for each other, and undo it. The others end soon, also where a
// table is so busy that a statement meets a dozen of them.
var deadlocks = backoff.Policy{
	Name:        "idempotency statement",
	MaxAttempts: 20,
	Schedule:    backoff.Exponential{Initial: 2 * time.Millisecond, Max: 50 * time.Millisecond},
	Classify:    backoff.RetryIf(isDeadlock),
}

// isDeadlock reports whether an error says that the database ended a statement
// for the sake of another, and undid it. The driver of MySQL and MariaDB has the
// number of an error in a field, which cannot be read without importing it, and
// in the text.
func isDeadlock(err error) bool {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState() == "40P01" || e.SQLState() == "40001"
	}
	text := err.Error()
	return strings.HasPrefix(text, "Error 1213") || strings.HasPrefix(text, "Error 1020")
}

// retrying is a database that executes a statement again after a deadlock. In a
// transaction that cannot be done: it is lost as a whole.
type retrying struct{ *sql.DB }

// ExecContext implements execer.
func (r retrying) ExecContext(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	err = deadlocks.Do(ctx, func(ctx context.Context) error {
		result, err = r.DB.ExecContext(ctx, query, args...)
		return err
	})
	return result, err
}
