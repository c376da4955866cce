package backoffsql

import (
	"cmp"
	"database/sql/driver"
	"reflect"
	"slices"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// Classify sorts the errors of databases. It asks [backoff.DefaultClassifier],
// which knows lost connections and SQLSTATEs, and takes driver.ErrBadConn for
// ClassRetryable. Those of github.com/go-sql-driver/mysql have the classes of [MySQL].
// An error that it does not know is ClassPermanent, unlike with the DefaultClassifier.
// So is nil.
//
// Do not put Classify into a policy whose Do begins and commits a transaction,
// such as by sql.DB.BeginTx or pgx.BeginFunc. Do takes a lost response to COMMIT for a
// lost connection, and repeats the transaction, which is then committed twice.
// [backoff.NonIdempotent] prevents that, but then serialization failures are not repeated
// either. [Tx] and, for pgx, contrib/backoffpgx distinguish the two, and use Classify by
// themselves.
//
// Errors have these classes:
//
//   - Retryable: 40001 (serialization failure), 40P01 (deadlock), 55P03 (lock
//     not available), 57P01, 57P02, 57P03, 57P05 (the server ends the
//     connection or is starting), 25P03, class 08, resets, broken pipes, timeouts,
//     SafeToRetry() true and ErrConnClosed (pgx).
//   - Retryable, the session is at fault: 25006 (the server is a standby now), 26000 (a
//     pooler has lost a prepared statement), and 0A000 where it is about a cached plan,
//     or a transaction that a standby cannot begin. A server to which
//     target_session_attrs objects is the same.
//   - Throttled: class 53, such as 53300 (too many connections).
//   - Not sent: refused connections, no route to the server.
//   - Permanent: all others, such as 57014 (canceled) and 25P02 (failed
//     transaction).
//
// Such a session may keep failing. [Tx] and contrib/backoffpgx discard it; Do cannot: use
// target_session_attrs=read-write in the DSN, so that the pool gets no such session
// again. Where no session of the pool may write, as with a replica, a write costs as many
// attempts as the policy allows. To Tx the error is permanent if ReadOnly of
// [sql.TxOptions] is set.
//
// ErrBadConn should mean that nothing was sent. But lib/pq and pgx also return
// it when a connection ends while they wait for the response.
//
// Classify is a [backoff.Classifier]. It is safe for concurrent use. Source:
// PostgreSQL, appendix A.
func Classify(err error) backoff.Class {
	class := cmp.Or(backoff.DefaultClassifier(err), ofMySQL(err))
	switch {
	case class != backoff.ClassUnknown:
		return class
	case errtree.Is(err, driver.ErrBadConn), hasText(err, ofConnection):
		return backoff.ClassRetryable
	}
	return backoff.ClassPermanent
}

// ofConnection are the texts of errors by which pgx and lib/pq say that a connection
// was lost before, perhaps while they waited for a response, or that its server is
// not what target_session_attrs asks for. They are known by their texts only.
var ofConnection = []string{
	"conn closed",
	"read only connection", "connection is not read only", "server is in standby mode", // pgx
	"session is read-only", "session is not read-only", "server is in hot standby mode", // lib/pq
	"server is not in hot standby mode", // both
}

// ofMySQL is the classifier for the driver that nearly all programs use.
var ofMySQL = MySQL(func(err error) (number uint16) {
	errtree.Find(err, func(err error) bool {
		if err.Error() == "invalid connection" { // mysql.ErrInvalidConn
			number = 2013
		}
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() == reflect.Struct && v.Type().PkgPath() == "github.com/go-sql-driver/mysql" {
			if n := v.FieldByName("Number"); n.CanUint() { // of a MySQLError
				number = uint16(n.Uint())
			}
		}
		return number != 0
	})
	return number
})

// MySQL returns a [backoff.Classifier] for MySQL and MariaDB by another driver than
// github.com/go-sql-driver/mysql, whose errors [Classify] and [Tx] know. Drivers keep the
// number of an error in a field, which only a function that imports the driver can read:
//
//	policy.Classify = backoffsql.MySQL(func(err error) uint16 {
//		var e *othermysql.Error
//		if errors.As(err, &e) {
//			return e.Number
//		}
//		return 0
//	})
//
// The numbers have these classes:
//
//   - Not sent: 1213 (deadlock), 1205 (lock wait timeout), 1020 (record has
//     changed), 3101 (rolled back by replication), 1290 of a server that is
//     read-only. They say that the statement was rolled back. [Tx] trusts that of a
//     COMMIT, too.
//   - Retryable: 1053, 1158 to 1161, 1927, 4031, 2006, 2013 and 2055 (the
//     connection was lost), 2002 and 2003 (the connection was not made); 1412,
//     1615 and 1243 (a table changed under a transaction, or under a prepared
//     statement); 1792, 1836 and 1874 (read-only), 3032 (offline), and 1047 where
//     it says that a node of Galera is not ready.
//   - Throttled: 1040 and 1203 (too many connections).
//   - Permanent: all others, except 0.
//
// A former primary returns 1290, 1792 or 1836 in every session. Set
// rejectReadOnly=true in the DSN, and the driver throws such a session away.
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
		class := numberClass(number(err), err)
		// go-sql-driver returns it by mistake when a connection breaks while it is
		// made, and does not export it.
		if class == backoff.ClassUnknown && err.Error() == "bad connection" {
			return backoff.ClassRetryable
		}
		return class
	}
}

// numberClass returns the class of an error by its number. Two numbers have
// several meanings, and the text tells which.
func numberClass(number uint16, err error) backoff.Class {
	says := func(text string) bool { return strings.Contains(err.Error(), text) }
	switch number {
	case 0:
		return backoff.ClassUnknown
	case 1213, 1205, 1020, 3101:
		return backoff.ClassNotSent
	case 1053, 1158, 1159, 1160, 1161, 1927, 4031, 2002, 2003, 2006, 2013, 2055,
		1243, 1412, 1615, 1792, 1836, 1874, 3032:
		return backoff.ClassRetryable
	case 1290: // of --secure-file-priv, for instance, it is final
		if says("read-only") || says("read_only") {
			return backoff.ClassNotSent
		}
	case 1047: // else it is an unknown command
		if says("WSREP") {
			return backoff.ClassRetryable
		}
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
	saysSo := o.custom != nil && o.custom(err) == backoff.ClassNotSent
	return saysSo || ofMySQL(err) == backoff.ClassNotSent || stateProvesRollback(sqlState(err)) || hasText(err, commitRollbacks)
}

// sqlState returns the SQLSTATE in the tree of err, or "".
func sqlState(err error) string {
	if e, ok := errtree.As[interface{ SQLState() string }](err); ok {
		return e.SQLState()
	}
	return ""
}

// commitRollbacks are the texts of errors by which drivers say that a COMMIT
// rolled back, as PostgreSQL does if a statement failed and fn dropped its
// error. These errors are known by their texts only.
var commitRollbacks = []string{
	"commit unexpectedly resulted in rollback",                 // pgx.ErrTxCommitRollback
	"pq: could not complete operation in a failed transaction", // lib/pq; "Could" in old versions
	"unexpected command tag ROLLBACK",                          // lib/pq, if it did not notice the failure
}

// hasText reports whether err, or an error that it wraps, has one of the texts.
func hasText(err error, texts []string) bool {
	return errtree.Find(err, func(err error) bool {
		text := err.Error()
		return slices.ContainsFunc(texts, func(known string) bool { return strings.EqualFold(known, text) })
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
