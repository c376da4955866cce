package backoffsql

import (
	"database/sql/driver"
	"errors"

	"github.com/gobackoff/backoff"
)

// Classify sorts the errors of databases: as [backoff.DefaultClassifier] does, which knows lost
// connections and SQLSTATEs, and driver.ErrBadConn as ClassRetryable. What neither knows is ClassPermanent, unlike there;
// so is nil.
//
//   - Retryable: 40001 (serialization failure), 40P01 (deadlock), 55P03 (lock not
//     available), 57P01, 57P02, 57P03, 57P05 (the server ends the connection, or starts), class 08, resets,
//     broken pipes, timeouts.
//   - Throttled: class 53, such as 53300 (too many connections).
//   - Unsent: refused connections, SafeToRetry() true (pgx).
//   - Permanent: the rest, 57014 (canceled) and 25P02 (failed transaction) among it.
//
// ErrBadConn ought to mean that nothing was sent, but lib/pq and pgx also return it for connections that end
// while they wait for the answer. It is a [backoff.Classifier], [Tx] uses it by itself, and it is safe
// for concurrent use. Source: PostgreSQL, appendix A.
func Classify(err error) backoff.Class {
	class := backoff.DefaultClassifier(err)
	switch {
	case class != backoff.ClassUnknown:
		return class
	case errors.Is(err, driver.ErrBadConn):
		return backoff.ClassRetryable
	}
	return backoff.ClassPermanent
}

// MySQL returns a [backoff.Classifier] for MySQL and MariaDB, whose driver keeps the number of an error in
// a field, where only a function that imports the driver can read it:
//
//	policy.Classify = backoffsql.MySQL(func(err error) uint16 {
//		if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
//			return e.Number
//		}
//		if errors.Is(err, mysql.ErrInvalidConn) {
//			return 2013 // lost connection, as MySQL's own clients number it
//		}
//		return 0
//	})
//
// Numbers that say that the statement was rolled back are ClassNotSent, which [Tx] trusts of a COMMIT too, from a policy's Classify: 1213 (deadlock), 1205 (lock
// wait timeout), 1020 (record has changed), 3101 (rolled back by replication). Retryable: 1053,
// 1158 to 1161, 1927, 4031, 2006, 2013 and 2055 (the connection is lost), 2002 and 2003 (it was not
// made). Throttled: 1040 and 1203 (too many connections). All others are ClassPermanent. For 0 the
// classifier has no opinion, and [Classify] follows; but for the "bad connection" of a handshake
// that broke off, which is Retryable, as the driver has no other name for it.
//
// number must be safe for concurrent use; a nil one is 0 for all errors. The classifier says
// ClassPermanent to nil. Source: MariaDB and MySQL, error code references.
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

// handshake is the text of an error that go-sql-driver keeps to itself, and lets out by mistake where a
// connection breaks while it is made.
const handshake = "bad connection"

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

// refused reports whether err, of a COMMIT, proves that nothing was committed. Only the server's own
// word does. ErrBadConn does not, see Classify; nor does SafeToRetry() of pgx 5.12, which
// also says true to "conn closed" where the connection broke while it waited for the answer.
func (c *call) refused(err error) bool {
	if c.hook != nil && c.hook(err) == backoff.ClassNotSent {
		return true
	}
	e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return ok && refusal(e.SQLState()) || rolledBack(err)
}

// rolledBack knows pgx.ErrTxCommitRollback, which has nothing but its text: PostgreSQL answers a COMMIT by
// ROLLBACK where a statement failed and fn swallowed its error.
func rolledBack(err error) bool { return err.Error() == "commit unexpectedly resulted in rollback" }

// refusal reports whether a SQLSTATE is the server's word that it did not commit. It is not where it says
// so itself (40003, 08007), where the connection or the server goes down, when a commit may
// have been written already (57, as in a wait for a replica that is cut short), or where the machine fails (53, 58, XX).
func refusal(state string) bool {
	if len(state) != 5 || state == "40003" {
		return false
	}
	switch state[:2] {
	case "08", "53", "57", "58", "F0", "HY", "XX":
		return false
	}
	return true
}
