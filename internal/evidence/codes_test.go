package evidence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// state is an error like those of pgx and lib/pq.
type state struct{ Code, Routine string }

func (s *state) Error() string    { return "as told" }
func (s *state) SQLState() string { return s.Code }

func class(err error) Class {
	return Of(err, func(error) (error, bool) { return nil, false }, false)
}

// A session with a server that became a standby, or whose prepared statements
// are gone or wrong, fails for good. Another session works, so it is worth
// trying again. PostgreSQL, appendix A, has the codes; the functions are those
// that PostgreSQL 15 named.
func TestWhatOnlyTheSessionIsWrongAboutMayPass(t *testing.T) {
	for _, e := range []*state{
		{"25006", "PreventCommandIfReadOnly"},
		{"25006", "PreventCommandDuringRecovery"},
		{"25006", ""},
		{"26000", "FetchPreparedStatement"},
		{"0A000", "RevalidateCachedQuery"},              // cached plan must not change result type
		{"0A000", "call_enum_check_hook"},               // cannot use serializable mode in a hot standby
		{"0A000", "GetSerializableTransactionSnapshot"}, // the same, at the first statement
		{"0A000", "call_bool_check_hook"},               // cannot set transaction read-write mode during recovery
	} {
		for _, err := range []error{e, fmt.Errorf("transfer: %w", e), errors.Join(errors.New("transfer"), e)} {
			require.Equal(t, Retryable, class(err), "%+v", e)
			require.True(t, IsOfSession(err), "%+v", e)
		}
	}
}

func TestWhatEverySessionWouldSayIsFinal(t *testing.T) {
	for _, e := range []*state{
		{"0A000", "transformLockingClause"}, // FOR UPDATE is not allowed with GROUP BY clause
		{"0A000", ""},
		{"25001", "PreventInTransactionBlock"},
		{"25P02", "exec_simple_query"}, // a statement before has failed
		{"42601", "scanner_yyerror"},
		{"42P05", "StorePreparedStatement"}, // behind a pooler the session of the server stays the same
		{"42P03", "CreatePortal"},
		{"3D000", "InitPostgres"},
	} {
		require.Equal(t, Permanent, class(e), "%+v", e)
		require.False(t, IsOfSession(e), "%+v", e)
	}
	for _, e := range []*state{{"40001", ""}, {"57P01", ""}, {"25P03", ""}, {"08P01", ""}} {
		require.Equal(t, Retryable, class(e), "%+v", e)
		require.False(t, IsOfSession(e), "%+v: the server ends the session, if it is the session's", e)
	}
	require.False(t, IsOfSession(errors.New("0A000")))
}

func TestAServerOfRedisThatRefusesForNowMayBeAskedAgain(t *testing.T) {
	for _, text := range []string{
		"READONLY You can't write against a read only replica.",
		"MOVED 3999 127.0.0.1:6381",
		"ASK 3999 127.0.0.1:6381",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"CLUSTERDOWN The cluster is down",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"NOREPLICAS Not enough good replicas to write.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
	} {
		require.Equal(t, Retryable, ofText(text), text)
	}
	for text, want := range map[string]Class{
		"BUSYKEY Target key name already exists.":      Unknown,
		"BUSYGROUP Consumer Group name already exists": Permanent,
		"ERR max number of clients reached":            Unknown,
		"READONLY":                                     Retryable, "READONLYISH no": Unknown, "": Unknown,
		"rpc error: code = NotFound desc = no": Permanent,
	} {
		require.Equal(t, want, ofText(text), text)
	}
}
