package backoffsql_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
)

// moderncError is an error like those of modernc.org/sqlite.
type moderncError struct{ code int }

func (*moderncError) Error() string { return "as told" }
func (e *moderncError) Code() int   { return e.code }

type (
	errNo         int
	errNoExtended int
)

// mattnError is an error like those of github.com/mattn/go-sqlite3, which has
// fields, and no pointer.
type mattnError struct {
	Code         errNo
	ExtendedCode errNoExtended
}

func (mattnError) Error() string { return "as told" }

// SQLite, "Result and Error Codes".
func TestSQLiteCodes(t *testing.T) {
	for code, want := range map[int]backoff.Class{
		5:         backoff.ClassNotSent,   // SQLITE_BUSY
		5 | 1<<8:  backoff.ClassNotSent,   // _RECOVERY
		517:       backoff.ClassNotSent,   // _SNAPSHOT
		5 | 3<<8:  backoff.ClassNotSent,   // _TIMEOUT
		6:         backoff.ClassNotSent,   // SQLITE_LOCKED
		6 | 1<<8:  backoff.ClassNotSent,   // _SHAREDCACHE
		15:        backoff.ClassRetryable, // SQLITE_PROTOCOL
		17:        backoff.ClassRetryable, // SQLITE_SCHEMA
		1:         backoff.ClassPermanent, // SQLITE_ERROR
		8:         backoff.ClassPermanent, // SQLITE_READONLY
		13:        backoff.ClassPermanent, // SQLITE_FULL
		19 | 8<<8: backoff.ClassPermanent, // SQLITE_CONSTRAINT_UNIQUE
		0:         backoff.ClassUnknown,
		503:       backoff.ClassUnknown, // of something that is no SQLite
	} {
		for _, err := range []error{&moderncError{code}, mattnError{errNo(code & 0xff), errNoExtended(code)}} {
			if code == 503 {
				err = &moderncError{code}
			}
			require.Equal(t, want, backoffsql.SQLite(err), "%d of %T", code, err)
			require.Equal(t, want, backoffsql.SQLite(fmt.Errorf("debit: %w", err)), "%d of %T", code, err)
		}
	}
	require.Equal(t, backoff.ClassPermanent, backoffsql.SQLite(nil))
	for _, err := range []error{errors.New("of somebody else"), (*none)(nil), numbered{5}} {
		require.Equal(t, backoff.ClassUnknown, backoffsql.SQLite(err))
	}
}

// none is an error that says nothing.
type none struct{ Code string }

func (*none) Error() string { return "none" }

func TestACommitThatABusySQLiteRefusedIsRepeated(t *testing.T) {
	p := with(backoff.NonIdempotent)
	p.Classify = backoffsql.SQLite
	log, err := run(t, &fake{commit: times(1, &moderncError{5})}, p)
	require.NoError(t, err)
	require.Equal(t, "begin work commit begin work commit", log)
	_, err = run(t, &fake{commit: times(1, &moderncError{10})}, p) // SQLITE_IOERR
	require.ErrorIs(t, err, backoffsql.ErrCommitUnknown)
}

// SQLite lets one transaction write at a time, and refuses the others.
func ExampleSQLite() {
	policy := backoff.Policy{Classify: backoffsql.SQLite, MaxAttempts: 20}
	const busySnapshot, constraint = 517, 19
	fmt.Println(policy.Retryable(&moderncError{busySnapshot}), policy.Retryable(&moderncError{constraint}))
	// Output: true false
}
