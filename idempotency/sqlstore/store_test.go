package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff/idempotency"
	"github.com/stretchr/testify/require"
)

func TestNewNamesWhatCannotBe(t *testing.T) {
	for table, want := range map[string]string{
		"":                      "",
		"keys":                  "",
		"app.keys_2":            "",
		"_":                     "",
		"2keys":                 "table",
		"keys;":                 "table",
		"keys--":                "table",
		`"keys"`:                "table",
		"a b":                   "table",
		".keys":                 "table",
		"keys.":                 "table",
		"schlüssel":             "table",
		"a{now}":                "table",
		"a?":                    "table",
		"keys where 1":          "table",
		strings.Repeat("k", 49): "table",
	} {
		s, err := New(nil, SQLite, Options{Table: table})
		if want == "" {
			require.NoError(t, err, table)
			require.NotNil(t, s)
			continue
		}
		require.ErrorContains(t, err, want, table)
	}
	for _, d := range []Dialect{0, 4, 255} {
		_, err := New(nil, d, Options{})
		require.ErrorContains(t, err, "dialect")
		_, err = d.Schema("keys")
		require.ErrorContains(t, err, "dialect")
		require.Equal(t, "invalid", d.String())
	}
}

func TestSchemaIsInTheWordsOfTheDialect(t *testing.T) {
	for d, want := range map[Dialect]struct {
		name, word string
		statements int
	}{
		PostgreSQL: {"PostgreSQL", "BYTEA", 2},
		MariaDB:    {"MariaDB", "ENGINE=InnoDB", 1},
		SQLite:     {"SQLite", "BLOB", 2},
	} {
		require.Equal(t, want.name, d.String())
		statements, err := d.Schema("app.keys")
		require.NoError(t, err)
		require.Len(t, statements, want.statements)
		require.Contains(t, statements[0], "CREATE TABLE IF NOT EXISTS app.keys (")
		require.Contains(t, statements[0], want.word)
		all := strings.Join(statements, "\n")
		require.Contains(t, all, "INDEX")
		require.Contains(t, all, "app_keys_expires")
		require.NotContains(t, all, "{")
	}
}

// A table outlives the release that made it.
func TestTheTableIsPromised(t *testing.T) {
	statements, err := PostgreSQL.Schema("keys")
	require.NoError(t, err)
	require.Equal(t, `CREATE TABLE IF NOT EXISTS keys (
	id          CHAR(64) NOT NULL PRIMARY KEY,
	fingerprint CHAR(64) NOT NULL,
	token       CHAR(26) NOT NULL,
	run         INTEGER NOT NULL,
	version     INTEGER NOT NULL,
	done        INTEGER NOT NULL,
	lease       BIGINT NOT NULL,
	expires     BIGINT NOT NULL,
	status      INTEGER NOT NULL,
	omitted     INTEGER NOT NULL,
	header      BYTEA,
	body        BYTEA
)`, statements[0])
	require.Equal(t, `{"Location":["/1"],"X-Name":["a","ü"]}`, string(encode(http.Header{"Location": {"/1"}, "X-Name": {"a", "\xfc"}})))
}

func TestPlaceholdersAreNumberedForPostgreSQLOnly(t *testing.T) {
	require.Equal(t, "a = $1 AND b = $2", PostgreSQL.bind("t", "a = ? AND b = ?"))
	require.Equal(t, "a = ? AND b = ?", SQLite.bind("t", "a = ? AND b = ?"))
	for _, d := range []Dialect{PostgreSQL, MariaDB, SQLite} {
		s, err := New(nil, d, Options{})
		require.NoError(t, err)
		for _, statement := range []string{s.insert, s.read, s.takeOver, s.remove, s.finish, s.release, s.sweep} {
			require.NotContains(t, statement, "{")
			require.Contains(t, statement, "idempotency_keys")
		}
	}
}

// Header fields need not be UTF-8, and come back as they were.
func FuzzHeader(f *testing.F) {
	f.Add("Location", "/1", "")
	f.Add("X", "\xfc\x00\xff", "ü")
	f.Add("", "\u2028", "<&>")
	f.Fuzz(func(t *testing.T, name, one, two string) {
		header := http.Header{name: {one, two}}
		got, err := decode(encode(header))
		require.NoError(t, err)
		require.Equal(t, header, got)
	})
}

func TestNoHeaderIsNothing(t *testing.T) {
	require.Nil(t, encode(nil))
	got, err := decode(nil)
	require.NoError(t, err)
	require.Nil(t, got)
	_, err = decode([]byte("{"))
	require.Error(t, err)
}

func TestALeaseOfLessThanAMillisecondIsNotNone(t *testing.T) {
	require.EqualValues(t, 1, ms(1))
	require.EqualValues(t, 1, ms(time.Millisecond))
	require.EqualValues(t, 2, ms(time.Millisecond+1))
}

func TestTheLongestLeaseAndNoTTLAreForever(t *testing.T) {
	require.Equal(t, forever.Milliseconds(), ms(math.MaxInt64))
	s, err := New(nil, SQLite, Options{TTL: -1})
	require.NoError(t, err)
	require.Equal(t, forever, s.ttl)
}

// broken is a database that answers every statement by the nth of errs.
type broken struct {
	errs  []error
	asked []string
}

func (b *broken) Connect(context.Context) (driver.Conn, error) { return b, nil }
func (b *broken) Driver() driver.Driver                        { return nil }
func (b *broken) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (b *broken) Close() error                                 { return nil }
func (b *broken) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }

func (b *broken) ExecContext(_ context.Context, statement string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(0), b.answer(statement)
}

func (b *broken) QueryContext(_ context.Context, statement string, _ []driver.NamedValue) (driver.Rows, error) {
	return nil, b.answer(statement)
}

func (b *broken) answer(statement string) error {
	b.asked = append(b.asked, strings.Fields(statement)[0])
	err := b.errs[0]
	b.errs = b.errs[1:]
	return err
}

// brokenStore returns a Store in a database that answers by errs.
func brokenStore(t *testing.T, d Dialect, errs ...error) (*Store, *broken) {
	b := &broken{errs: errs}
	db := sql.OpenDB(b)
	t.Cleanup(func() { db.Close() })
	s, err := New(db, d, Options{})
	require.NoError(t, err)
	return s, b
}

// begin begins a request.
func begin(ctx context.Context, s *Store) error {
	hash := strings.Repeat("0", 64)
	_, err := s.Begin(ctx, hash, hash, time.Minute)
	return err
}

// If the answer to a claim is lost, the claim may have been made. It is
// released, so that the next attempt need not wait for the end of its lease.
func TestAClaimWhoseAnswerIsLostIsGivenUpAndAFailedReadIsAnError(t *testing.T) {
	lost := errors.New("connection lost")
	for _, c := range []struct {
		answers []error
		asked   []string
	}{
		{[]error{lost, nil}, []string{"INSERT", "UPDATE"}},
		{[]error{nil, lost}, []string{"INSERT", "SELECT"}},
	} {
		s, b := brokenStore(t, PostgreSQL, c.answers...)
		require.ErrorIs(t, begin(t.Context(), s), lost)
		require.Equal(t, c.asked, b.asked)
	}
}

// hanging is a database that answers nothing.
type hanging struct{ broken }

func (h *hanging) Connect(context.Context) (driver.Conn, error) { return h, nil }

func (h *hanging) ExecContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Result, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestBeginEndsWithItsContextIfTheDatabaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := sql.OpenDB(new(hanging))
		s, err := New(db, PostgreSQL, Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, begin(ctx, s), context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(began))
		time.Sleep(time.Second) // for the release of the claim
		require.NoError(t, db.Close())
	})
}

func TestBeginDoesNotTryForEver(t *testing.T) {
	s, _ := brokenStore(t, MariaDB, slices.Repeat([]error{nil, sql.ErrNoRows}, 100)...)
	require.ErrorContains(t, begin(t.Context(), s), "keep changing the key")
}

// state is an error of a driver that tells SQLSTATEs.
type state string

func (s state) Error() string    { return "failed" }
func (s state) SQLState() string { return string(s) }

func TestAStatementIsExecutedAgainAfterADeadlock(t *testing.T) {
	for deadlock, again := range map[error]bool{
		state("40P01"): true,
		state("40001"): true,
		errors.New("Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction"): true,
		errors.New("Error 1213: Deadlock found when trying to get lock; try restarting transaction"):         true,
		errors.New("Error 1020 (HY000): Record has changed since last read in table 'keys'"):                 true,
		errors.New("Error 1205 (HY000): Lock wait timeout exceeded; try restarting transaction"):             false,
		errors.New("connection lost, not Error 1213"):                                                        false,
		state("57014"): false,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, b := brokenStore(t, MariaDB, append(slices.Repeat([]error{deadlock}, 9), nil)...)
			began := time.Now()
			err := s.Release(t.Context(), idempotency.Claim{})
			if !again {
				require.ErrorIs(t, err, deadlock)
				require.Len(t, b.asked, 1)
				return
			}
			require.NoError(t, err, deadlock)
			require.Len(t, b.asked, 10)
			require.Less(t, time.Since(began), 300*time.Millisecond)
		})
	}
}

func TestDeadlocksWithoutEndAreAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := brokenStore(t, PostgreSQL, slices.Repeat([]error{state("40P01")}, 100)...)
		_, err := s.Sweep(t.Context(), 0)
		require.ErrorIs(t, err, state("40P01"))
		require.Len(t, b.asked, 20)
		_, err = s.find(t.Context(), "key")
		require.ErrorIs(t, err, state("40P01"))
		require.Len(t, b.asked, 40)
	})
}

func TestCreateReportsWhatFails(t *testing.T) {
	s, _ := brokenStore(t, SQLite, errors.New("no right"))
	require.ErrorContains(t, s.Create(t.Context()), "sqlstore: create: no right")
}
