package sqlstoretest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/idempotency"
	"github.com/gobackoff/backoff/idempotency/sqlstore"
	"github.com/gobackoff/backoff/idempotency/storetest"
)

type database struct {
	*sql.DB
	dialect sqlstore.Dialect
}

// store returns a store with a table of its own.
func (d database) store(t *testing.T, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	o.Table = d.table(t)
	s, err := sqlstore.New(d.DB, d.dialect, o)
	require.NoError(t, err)
	require.NoError(t, s.Create(t.Context()))
	require.NoError(t, s.Create(t.Context()), "it exists already")
	return s
}

// table returns the name of a table that is dropped at the end of the test.
func (d database) table(t *testing.T) string {
	name := "test_" + strings.ToLower(rand.Text())[:12]
	t.Cleanup(func() { d.Exec("DROP TABLE " + name) })
	return name
}

// bind writes placeholders as the database wants them.
func (d database) bind(statement string) string {
	if d.dialect == sqlstore.PostgreSQL {
		return strings.Replace(statement, "?", "$1", 1)
	}
	return statement
}

func contract(t *testing.T, db database) {
	t.Run("Store", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) idempotency.Store { return db.store(t, sqlstore.Options{}) })
	})
	t.Run("keys expire", db.keysExpire)
	t.Run("the longest times are long", db.longest)
	t.Run("sweep removes what expired", db.sweep)
	t.Run("processes sweep while others work", db.sweepBesideWork)
	t.Run("keys are hashes", db.hashes)
	t.Run("without a table there is no claim", db.missing)
	t.Run("one charge for 500 requests under 50 keys", db.oneChargePerKey)
	t.Run("a crash between effect and record", db.crash)
	t.Run("a crash after both were committed", db.crashRecorded)
	t.Run("a run that lost its lease cannot commit", db.zombie)
	t.Run("duplicates while the transaction is open", db.isolation)
	t.Run("the effect alone can be recorded", db.effectOnly)
	t.Run("Record wants a claim", db.unclaimed)
}

func hash() string {
	b := make([]byte, 32)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func (d database) keysExpire(t *testing.T) {
	s := d.store(t, sqlstore.Options{TTL: 50 * time.Millisecond})
	key := hash()
	first, err := s.Begin(t.Context(), key, hash(), time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, s.Finish(t.Context(), first.Claim, idempotency.Record{Status: 200}))
	time.Sleep(100 * time.Millisecond)
	again, err := s.Begin(t.Context(), key, hash(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, idempotency.EntryClaimed, again.State)
	require.Equal(t, 1, again.Claim.Run)
}

func (d database) longest(t *testing.T) {
	s := d.store(t, sqlstore.Options{TTL: math.MaxInt64})
	key, fingerprint := hash(), hash()
	first, err := s.Begin(t.Context(), key, fingerprint, math.MaxInt64)
	require.NoError(t, err)
	again, err := s.Begin(t.Context(), key, fingerprint, math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, idempotency.EntryInFlight, again.State)
	require.Positive(t, again.Left)
	require.NoError(t, s.Finish(t.Context(), first.Claim, idempotency.Record{Status: 200}))
	again, err = s.Begin(t.Context(), key, fingerprint, math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, idempotency.EntryDone, again.State)
}

func (d database) sweep(t *testing.T) {
	s := d.store(t, sqlstore.Options{TTL: 50 * time.Millisecond})
	for range 7 {
		_, err := s.Begin(t.Context(), hash(), hash(), time.Millisecond)
		require.NoError(t, err)
	}
	inFlight := hash()
	_, err := s.Begin(t.Context(), inFlight, hash(), time.Hour)
	require.NoError(t, err)
	time.Sleep(100 * time.Millisecond)
	n, err := s.Sweep(t.Context(), 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
	n, err = s.Sweep(t.Context(), 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "what is in flight stays")
}

// Several processes sweep a table in which keys expire, come again and are
// finished all the time. No call fails, although the database ends some of them
// as deadlocks.
func (d database) sweepBesideWork(t *testing.T) {
	s := d.store(t, sqlstore.Options{TTL: 5 * time.Millisecond})
	d.SetMaxOpenConns(32)
	ctx, cancel := context.WithCancel(t.Context()) // a dial would notice a deadline before ctx does
	defer time.AfterFunc(2*time.Second, cancel).Stop()
	keys := make([]string, 200)
	for i := range keys {
		keys[i] = hash()
	}
	fingerprint := hash()
	var all sync.WaitGroup
	var swept, finished, failed atomic.Int64
	check := func(err error) {
		if err != nil && ctx.Err() == nil && failed.Add(1) <= 5 {
			t.Error(err)
		}
	}
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				n, err := s.Sweep(ctx, 100)
				check(err)
				swept.Add(n)
			}
		})
	}
	for worker := range 16 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				entry, err := s.Begin(ctx, keys[(worker*13+i)%len(keys)], fingerprint, time.Minute)
				check(err)
				if err != nil || entry.State != idempotency.EntryClaimed {
					continue
				}
				if i%4 == 0 {
					check(s.Release(ctx, entry.Claim))
					continue
				}
				check(s.Finish(ctx, entry.Claim, idempotency.Record{Status: 200}))
				finished.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d keys swept, %d finished, %d calls failed", swept.Load(), finished.Load(), failed.Load())
	require.Zero(t, failed.Load())
	require.Positive(t, swept.Load())
	require.Positive(t, finished.Load())
}

func (d database) hashes(t *testing.T) {
	s := d.store(t, sqlstore.Options{})
	_, err := s.Begin(t.Context(), "a key as it came", hash(), time.Minute)
	require.Error(t, err)
	_, err = s.Begin(t.Context(), hash(), "", time.Minute)
	require.Error(t, err)
}

func (d database) missing(t *testing.T) {
	s, err := sqlstore.New(d.DB, d.dialect, sqlstore.Options{Table: d.table(t)})
	require.NoError(t, err)
	_, err = s.Begin(t.Context(), hash(), hash(), time.Minute)
	require.ErrorContains(t, err, "sqlstore: begin: ")
	require.ErrorContains(t, s.Release(t.Context(), idempotency.Claim{}), "sqlstore: release: ")
	_, err = s.Sweep(t.Context(), 1)
	require.ErrorContains(t, err, "sqlstore: sweep: ")
}

// lease is long enough for a run, and short enough to wait for its end.
const lease = 500 * time.Millisecond

// service charges, in the database of the keys.
type service struct {
	database
	*httptest.Server
	table string
	runs  atomic.Int64
}

// serve starts a service whose handler is charge, inside of Dedup.
func (d database) serve(t *testing.T, store idempotency.Store, lease time.Duration, charge func(*service, http.ResponseWriter, *http.Request)) *service {
	t.Helper()
	s := &service{database: d, table: d.table(t)}
	_, err := d.Exec("CREATE TABLE " + s.table + " (id VARCHAR(64))")
	require.NoError(t, err)
	keyed := idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{Store: store, Lease: lease})
	s.Server = httptest.NewServer(keyed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		charge(s, w, r)
	})))
	t.Cleanup(s.Server.Close)
	return s
}

// charge sends a request, and returns the status and the body.
func (s *service) charge(t *testing.T, key string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(key))
	require.NoError(t, err)
	req.Header.Set(backoffhttp.HeaderIdempotencyKey, key)
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// settled is charge for a client that comes again while its request is in
// flight.
func (s *service) settled(t *testing.T, key string) (int, string) {
	t.Helper()
	for {
		status, body := s.charge(t, key)
		if status != http.StatusConflict {
			return status, body
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *service) charges(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, s.QueryRow("SELECT count(*) FROM "+s.table).Scan(&n))
	return n
}

// transact makes the effect and its record in one transaction.
func (s *service) transact(ctx context.Context, store *sqlstore.Store, id string, r idempotency.Record) (err error) {
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err = tx.ExecContext(ctx, s.bind("INSERT INTO "+s.table+" VALUES (?)"), id); err != nil {
		return err
	}
	if err = store.Record(ctx, tx, r); err != nil {
		return err
	}
	return tx.Commit()
}

func (d database) oneChargePerKey(t *testing.T) {
	s := d.serve(t, d.store(t, sqlstore.Options{}), time.Minute, func(s *service, w http.ResponseWriter, r *http.Request) {
		id, _ := io.ReadAll(r.Body)
		if _, err := s.ExecContext(r.Context(), s.bind("INSERT INTO "+s.table+" VALUES (?)"), string(id)); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "charged "+string(id))
	})
	s.DB.SetMaxOpenConns(8)
	keys := make([]string, 50)
	for i := range keys {
		keys[i] = rand.Text()
	}
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			status, body := s.settled(t, keys[i%len(keys)])
			if status != http.StatusOK || body != "charged "+keys[i%len(keys)] {
				t.Errorf("%d %s", status, body)
			}
		})
		if i%16 == 15 {
			all.Wait()
		}
	}
	all.Wait()
	require.Equal(t, len(keys), s.charges(t))
}

// dying is a store whose process dies between effect and record, once.
type dying struct {
	idempotency.Store
	dead atomic.Bool
}

func (d *dying) Finish(ctx context.Context, c idempotency.Claim, r idempotency.Record) error {
	if d.dead.CompareAndSwap(false, true) {
		panic(http.ErrAbortHandler)
	}
	return d.Store.Finish(ctx, c, r)
}

// die is charge for a request during which the process dies.
func (s *service) die(t *testing.T, key string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(key))
	require.NoError(t, err)
	req.Header.Set(backoffhttp.HeaderIdempotencyKey, key)
	transport := &http.Transport{DisableKeepAlives: true} // which net/http does not repeat on
	_, err = transport.RoundTrip(req)
	require.Error(t, err)
}

var charged = idempotency.Record{Status: http.StatusCreated, Body: []byte("charged")}

// answer is what a handler says of its charge.
func answer(w http.ResponseWriter, err error) {
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	charged.Send(w)
}

// A process that dies after the effect leaves a key in flight. When the lease
// has ended, the charge is made again, and told that it is not the first.
func (d database) crash(t *testing.T) {
	s := d.serve(t, &dying{Store: d.store(t, sqlstore.Options{})}, lease, func(s *service, w http.ResponseWriter, r *http.Request) {
		_, err := s.ExecContext(r.Context(), s.bind("INSERT INTO "+s.table+" VALUES (?)"), "x")
		c, _ := idempotency.ClaimFrom(r.Context())
		if int64(c.Run) != s.runs.Load() {
			err = errors.New("the handler was told of another run")
		}
		answer(w, err)
	})
	key := rand.Text()
	s.die(t, key)
	status, _ := s.charge(t, key)
	require.Equal(t, http.StatusConflict, status, "until the lease has ended")
	status, _ = s.settled(t, key)
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, 2, s.charges(t))
}

// With the record in the transaction of the effect there is nothing between the
// two.
func (d database) crashRecorded(t *testing.T) {
	store := d.store(t, sqlstore.Options{})
	s := d.serve(t, &dying{Store: store}, lease, func(s *service, w http.ResponseWriter, r *http.Request) {
		answer(w, s.transact(r.Context(), store, "x", charged))
	})
	key := rand.Text()
	s.die(t, key)
	for range 2 {
		status, body := s.charge(t, key)
		require.Equal(t, http.StatusCreated, status)
		require.Equal(t, "charged", body)
	}
	require.Equal(t, 1, s.charges(t))
	require.EqualValues(t, 1, s.runs.Load())
}

// A handler that does not heed its context outlives its lease. The next run
// charges, and the first one cannot any more.
func (d database) zombie(t *testing.T) {
	store := d.store(t, sqlstore.Options{})
	asleep, awake, lost := make(chan bool), make(chan bool), make(chan error, 1)
	s := d.serve(t, store, lease, func(s *service, w http.ResponseWriter, r *http.Request) {
		ctx := context.WithoutCancel(r.Context())
		if c, _ := idempotency.ClaimFrom(ctx); c.Run == 1 {
			asleep <- true
			<-awake
			lost <- s.transact(ctx, store, "first", charged)
			return
		}
		answer(w, s.transact(ctx, store, "second", charged))
	})
	key := rand.Text()
	var first sync.WaitGroup
	first.Go(func() { s.charge(t, key) })
	<-asleep
	status, _ := s.settled(t, key)
	require.Equal(t, http.StatusCreated, status)
	awake <- true
	first.Wait()
	require.ErrorIs(t, <-lost, idempotency.ErrLeaseLost)
	require.Equal(t, 1, s.charges(t))
}

// Where the response is not known within the transaction, the effect still is.
func (d database) effectOnly(t *testing.T) {
	store := d.store(t, sqlstore.Options{})
	s := d.serve(t, &dying{Store: store}, lease, func(s *service, w http.ResponseWriter, r *http.Request) {
		answer(w, s.transact(r.Context(), store, "x", idempotency.Record{}))
	})
	key := rand.Text()
	s.die(t, key)
	status, _ := s.charge(t, key)
	require.Equal(t, http.StatusGone, status)
	require.Equal(t, 1, s.charges(t))

	status, _ = s.charge(t, "another-key") // whose process lives
	require.Equal(t, http.StatusCreated, status)
	status, body := s.charge(t, "another-key")
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, "charged", body)
}

func (d database) unclaimed(t *testing.T) {
	store := d.store(t, sqlstore.Options{})
	tx, err := d.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	require.ErrorContains(t, store.Record(t.Context(), tx, charged), "no claim")
}

// Whatever the isolation level, a duplicate that comes while the transaction is
// open is answered, at once or at its end, and never carried out.
func (d database) isolation(t *testing.T) {
	for _, level := range d.levels() {
		t.Run(level.String(), func(t *testing.T) {
			store := d.store(t, sqlstore.Options{})
			s := d.serve(t, store, time.Minute, func(s *service, w http.ResponseWriter, r *http.Request) {
				tx, err := s.BeginTx(r.Context(), &sql.TxOptions{Isolation: level})
				if err == nil {
					defer tx.Rollback()
					_, err = tx.ExecContext(r.Context(), s.bind("INSERT INTO "+s.table+" VALUES (?)"), "x")
				}
				if err == nil {
					err = store.Record(r.Context(), tx, charged)
				}
				time.Sleep(30 * time.Millisecond)
				if err == nil {
					err = tx.Commit()
				}
				answer(w, err)
			})
			key := rand.Text()
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if status, _ := s.settled(t, key); status != http.StatusCreated {
						t.Error(status)
					}
				})
			}
			all.Wait()
			require.Equal(t, 1, s.charges(t))
		})
	}
}

func (d database) levels() []sql.IsolationLevel {
	if d.dialect == sqlstore.SQLite {
		return []sql.IsolationLevel{sql.LevelDefault}
	}
	return []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
}
