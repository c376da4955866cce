package backoffsql

import (
	"reflect"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// SQLite is a [backoff.Classifier] for SQLite. It knows the errors of
// modernc.org/sqlite by their method Code() int, and those of
// github.com/mattn/go-sqlite3 by their fields Code and ExtendedCode.
//
//	policy.Classify = backoffsql.SQLite
//
// The codes, of which an extended one means what its last byte does, have these
// classes:
//
//   - Not sent: 5 (SQLITE_BUSY, and so 517, SQLITE_BUSY_SNAPSHOT) and 6
//     (SQLITE_LOCKED): another connection has the lock, and nothing was done. In
//     a policy's Classify, [Tx] trusts this class of a COMMIT, too, after which
//     both drivers roll back (modernc.org/sqlite from v1.46.1 on).
//   - Retryable: 15 (SQLITE_PROTOCOL) and 17 (SQLITE_SCHEMA).
//   - Permanent: all others up to 28, and nil.
//
// Of other errors SQLite has no opinion. [Classify] follows in Tx.
//
// SQLite has one writer at a time. Let the driver wait for its turn, by a busy
// timeout in the DSN: _pragma=busy_timeout(5000) of modernc, and _busy_timeout=5000
// of mattn. A transaction that has read something that is old by now does not wait:
// SQLITE_BUSY_SNAPSHOT comes at once. So begin with the lock (BEGIN IMMEDIATE), by
// _txlock=immediate in the DSN of either, if most transactions write.
//
// SQLite is safe for concurrent use. Source: SQLite, "Result and Error Codes",
// "Transaction".
func SQLite(err error) backoff.Class {
	if err == nil {
		return backoff.ClassPermanent
	}
	switch code := sqliteCode(err) & 0xff; {
	case code == 5, code == 6:
		return backoff.ClassNotSent
	case code == 15, code == 17:
		return backoff.ClassRetryable
	case code != 0 && code <= 28:
		return backoff.ClassPermanent
	}
	return backoff.ClassUnknown
}

// sqliteCode returns the code of an error of SQLite in the tree of err, and 0 if
// there is none.
func sqliteCode(err error) (code int64) {
	errtree.Find(err, func(err error) bool {
		if e, ok := err.(interface{ Code() int }); ok {
			code = int64(e.Code())
		} else if e := reflect.Indirect(reflect.ValueOf(err)); e.Kind() == reflect.Struct {
			plain, extended := e.FieldByName("Code"), e.FieldByName("ExtendedCode")
			if plain.CanInt() && extended.CanInt() {
				code = plain.Int()
			}
		}
		return code != 0
	})
	return code
}
