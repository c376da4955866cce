package backoffsql

import (
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// Classify sorts the errors of databases. It asks [backoff.DefaultClassifier],
// which knows lost connections and SQLSTATEs, and takes driver.ErrBadConn for
// ClassRetryable. An error that neither knows is ClassPermanent, unlike with
// the DefaultClassifier. So is nil.
//
// Do not put Classify into a policy whose Do begins and commits a transaction,
// such as by sql.DB.BeginTx or pgx.BeginFunc. To Do, a response to COMMIT that
// was lost is a connection that was lost: it repeats the transaction, which
// then is committed twice. [backoff.NonIdempotent] prevents that, but then
// serialization failures are not repeated either. [Tx] and, for pgx,
// contrib/backoffpgx distinguish the two, and use Classify by themselves.
//
// Errors have these classes:
//
//   - Retryable: 40001 (serialization failure), 40P01 (deadlock), 55P03 (lock
//     not available), 57P01, 57P02, 57P03, 57P05 (the server ends the
//     connection or is starting), class 08, resets, broken pipes, timeouts,
//     SafeToRetry() true and ErrConnClosed (pgx).
//   - Throttled: class 53, such as 53300 (too many connections).
//   - Not sent: refused connections, no route to the server.
//   - Permanent: all others, such as 57014 (canceled) and 25P02 (failed
//     transaction).
//
// ErrBadConn should mean that nothing was sent. But lib/pq and pgx also return
// it when a connection ends while they wait for the response.
//
// Classify is a [backoff.Classifier]. It is safe for concurrent use. Source:
// PostgreSQL, appendix A.
func Classify(err error) backoff.Class {
	class := backoff.DefaultClassifier(err)
	switch {
	case class != backoff.ClassUnknown:
		return class
	case errtree.Is(err, driver.ErrBadConn), errtree.Find(err, isClosed):
		return backoff.ClassRetryable
	}
	return backoff.ClassPermanent
}

// isClosed reports whether err is pgx's ErrConnClosed: the connection was lost
// before, perhaps while pgx waited for a response. It has no method that says so.
func isClosed(err error) bool { return err.Error() == "conn closed" }

// MySQL returns a [backoff.Classifier] for MySQL and MariaDB. Their driver
// keeps the number of an error in a field, which only a function that imports
// the driver can read:
//
//	policy.Classify = backoffsql.MySQL(func(err error) uint16 {
//		var e *mysql.MySQLError
//		if errors.As(err, &e) {
//			return e.Number
//		}
//		if errors.Is(err, mysql.ErrInvalidConn) {
//			return 2013 // lost connection, as MySQL's own clients number it
//		}
//		return 0
//	})
//
// The numbers have these classes:
//
//   - Not sent: 1213 (deadlock), 1205 (lock wait timeout), 1020 (record has
//     changed), 3101 (rolled back by replication). They say that the statement
//     was rolled back. In a policy's Classify, [Tx] trusts this class of a
//     COMMIT, too.
//   - Retryable: 1053, 1158 to 1161, 1927, 4031, 2006, 2013 and 2055 (the
//     connection was lost), 2002 and 2003 (the connection was not made).
//   - Throttled: 1040 and 1203 (too many connections).
//   - Permanent: all others, except 0.
//
// For 0 the classifier has no opinion, and [Classify] follows. There is one
// exception: the error "bad connection" of a handshake that broke off, for
// which the driver has no other name, is Retryable.
//
// number must be safe for concurrent use. A nil number means 0 for all errors.
// The classifier returns ClassPermanent for nil. Source: MariaDB and MySQL,
// error code references.
func MySQL(number func(error) uint16) backoff.Classifier {
	return func(err error) backoff.Class {
		switch {
		case err == nil:
			return backoff.ClassPermanent
		case number == nil:
			return backoff.ClassUnknown
		}
		class := numberClass(number(err))
		if class == backoff.ClassUnknown && err.Error() == handshake {
			return backoff.ClassRetryable
		}
		return class
	}
}

// handshake is the text of an error that go-sql-driver does not export, but
// returns by mistake when a connection breaks while it is made.
const handshake = "bad connection"

// numberClass returns the class of an error's number.
func numberClass(number uint16) backoff.Class {
	switch number {
	case 0:
		return backoff.ClassUnknown
	case 1213, 1205, 1020, 3101:
		return backoff.ClassNotSent
	case 1053, 1158, 1159, 1160, 1161, 1927, 4031, 2002, 2003, 2006, 2013, 2055:
		return backoff.ClassRetryable
	case 1040, 1203:
		return backoff.ClassThrottled
	}
	return backoff.ClassPermanent
}

// provesRollback reports whether err, the error of a COMMIT, proves that
// nothing was committed. Only the server's own word proves it. ErrBadConn does
// not (see Classify). SafeToRetry() of pgx before 5.13 does not either: it was
// also true for "conn closed", when the connection broke while pgx waited for the
// answer. A [Transactor] that knows its driver says more by [RolledBack].
func (o *outcome) provesRollback(err error) bool {
	if o.custom != nil && o.custom(err) == backoff.ClassNotSent {
		return true
	}
	e, ok := errtree.As[interface{ SQLState() string }](err)
	return ok && stateProvesRollback(e.SQLState()) || isCommitRollback(err)
}

// commitRollbacks are the texts of errors by which drivers say that a COMMIT
// rolled back, as PostgreSQL does if a statement failed and fn dropped its
// error. These errors are known by their texts only.
var commitRollbacks = []string{
	"commit unexpectedly resulted in rollback",                 // pgx.ErrTxCommitRollback
	"pq: could not complete operation in a failed transaction", // lib/pq; "Could" in old versions
	"unexpected command tag ROLLBACK",                          // lib/pq, if it did not notice the failure
}

// isCommitRollback reports whether err, or an error that it wraps, has one of
// these texts.
func isCommitRollback(err error) bool {
	return errtree.Find(err, func(err error) bool {
		text := err.Error()
		return slices.ContainsFunc(commitRollbacks, func(known string) bool { return strings.EqualFold(known, text) })
	})
}

// stateProvesRollback reports whether a SQLSTATE is the server's word that it
// did not commit. It is not if the state itself says that the outcome is
// unknown (40003, 08007), if the connection or the server goes down, if the
// commit may have been written already (57, as when waiting for a replica is
// cut short), or if the machine fails (53, 58, XX).
func stateProvesRollback(state string) bool {
	unknown := []string{"08", "53", "57", "58", "F0", "HY", "XX"}
	return len(state) == 5 && state != "40003" && !slices.Contains(unknown, state[:2])
}
