package idempotency_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/idempotency"
	"github.com/gobackoff/backoff/idempotency/storetest"
	"github.com/gobackoff/backoff/internal/nightly"
)

func TestMemoryStoreKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) idempotency.Store { return new(idempotency.MemoryStore) })
}

// memory has shorthands for a MemoryStore.
type memory struct {
	*testing.T
	idempotency.MemoryStore
}

func (m *memory) begin(key string) idempotency.Entry {
	m.Helper()
	entry, err := m.Begin(context.Background(), key, "print", time.Minute)
	require.NoError(m, err)
	return entry
}

func (m *memory) done(key, body string) {
	m.Helper()
	entry := m.begin(key)
	require.Equal(m, idempotency.EntryClaimed, entry.State)
	require.NoError(m, m.Finish(context.Background(), entry.Claim, idempotency.Record{Status: 200, Body: []byte(body)}))
}

// 65,536 keys in 10 minutes are 109.2 a second, from one caller or from many.
func TestADefaultMemoryStoreTakes109NewKeysASecond(t *testing.T) {
	nightly.Long(t)
	for _, c := range []struct{ rate, callers, full int }{{109, 1, 0}, {111, 40, 65536 / 111}, {1000, 1, 65}} {
		synctest.Test(t, func(t *testing.T) {
			m, record := &memory{T: t}, idempotency.Record{Status: 200}
			for second := range 12 * 60 {
				for n := range c.rate {
					entry, err := m.Begin(t.Context(), fmt.Sprintf("%032d%016d%016d", n%c.callers, second, n), "print", time.Minute)
					if err != nil {
						require.ErrorIs(t, err, idempotency.ErrStoreFull)
						require.Equal(t, c.full, second, "%d a second", c.rate)
						return
					}
					m.Finish(t.Context(), entry.Claim, record)
				}
				time.Sleep(time.Second)
			}
			require.Zero(t, c.full, "%d a second for 12 minutes", c.rate)
		})
	}
}

// A client is told when to come again.
func TestAFullStoreAsksTheClientToWait(t *testing.T) {
	h := once(handle(func(http.ResponseWriter, *http.Request) {}), idempotency.Options{
		Store: &idempotency.MemoryStore{MaxRecords: 1}, RetryAfter: 7 * time.Second,
	})
	require.Equal(t, http.StatusOK, request{key: "a"}.to(h).Code)
	refused := request{key: "b"}.to(h)
	require.Equal(t, http.StatusServiceUnavailable, refused.Code)
	require.Equal(t, "7", refused.Header().Get("Retry-After"))
}

func TestMemoryStoreForgetsAfterTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{0: 24 * time.Hour, time.Hour: time.Hour, -1: 10_000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{t, idempotency.MemoryStore{TTL: ttl}}
			m.done("a", "x")
			time.Sleep(want - 1)
			require.Equal(t, idempotency.EntryDone, m.begin("a").State)
			time.Sleep(time.Nanosecond)
			if ttl < 0 {
				require.Equal(t, idempotency.EntryDone, m.begin("a").State, "no limit")
				return
			}
			again := m.begin("a")
			require.Equal(t, idempotency.EntryClaimed, again.State)
			require.Equal(t, 1, again.Claim.Run)
		})
	}
}

func TestMemoryStoreDoesNotForgetWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{t, idempotency.MemoryStore{TTL: time.Second, MaxRecords: 2, Keep: time.Second}}
		m.begin("in flight")
		m.done("done", "x")
		time.Sleep(30 * time.Second)
		m.begin("another")
		require.Equal(t, idempotency.EntryInFlight, m.begin("in flight").State)
		require.Equal(t, 2, m.Len())
		_, err := m.Begin(context.Background(), "one more", "print", time.Minute)
		require.ErrorIs(t, err, idempotency.ErrStoreFull)
		time.Sleep(30 * time.Second)
		m.begin("one more")
		require.Equal(t, 2, m.Len(), "the lease has ended")
	})
}

// A full store forgets the oldest keys, but none that clients may still be
// retrying.
func TestMemoryStoreIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{t, idempotency.MemoryStore{MaxRecords: 3}}
		for i := range 3 {
			m.done(strconv.Itoa(i), "x")
			time.Sleep(time.Minute)
		}
		time.Sleep(7*time.Minute - 1)
		_, err := m.Begin(context.Background(), "3", "print", time.Minute)
		require.ErrorIs(t, err, idempotency.ErrStoreFull)
		time.Sleep(time.Nanosecond)
		m.done("3", "x")
		require.Equal(t, idempotency.EntryDone, m.begin("1").State)
		require.Equal(t, 3, m.Len())
		time.Sleep(20 * time.Minute)
		require.Equal(t, idempotency.EntryClaimed, m.begin("0").State)
	})
}

func TestMemoryStoreKeepsAllForTTLIfTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{t, idempotency.MemoryStore{MaxRecords: 1, Keep: -1}}
		m.done("0", "x")
		time.Sleep(24*time.Hour - 1)
		_, err := m.Begin(context.Background(), "1", "print", time.Minute)
		require.ErrorIs(t, err, idempotency.ErrStoreFull)
		time.Sleep(time.Nanosecond)
		m.done("1", "x")
	})
}

func TestMemoryStoreWithoutLimits(t *testing.T) {
	m := &memory{t, idempotency.MemoryStore{MaxRecords: -1, MaxBytes: -1}}
	for i := range 70000 {
		m.done(strconv.Itoa(i), "x")
	}
	m.done("large", strings.Repeat("x", 65<<20))
	require.Len(t, m.begin("large").Record.Body, 65<<20)
	require.Equal(t, 70001, m.Len())
}

func TestMemoryStoreOmitsWhatFindsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{t, idempotency.MemoryStore{MaxBytes: 100}}
		m.done("a", strings.Repeat("a", 60))
		m.done("b", strings.Repeat("b", 60))
		require.Equal(t, idempotency.Record{Status: 200, Omitted: true}, m.begin("b").Record)
		require.Len(t, m.begin("a").Record.Body, 60)
		m.done("c", strings.Repeat("c", 101))
		require.True(t, m.begin("c").Record.Omitted, "larger than all there is")
		time.Sleep(10 * time.Minute)
		m.done("d", strings.Repeat("d", 60))
		require.Len(t, m.begin("d").Record.Body, 60)
		require.Equal(t, idempotency.EntryClaimed, m.begin("a").State, "which made room")
	})
}

func TestEntryStatesHaveNames(t *testing.T) {
	for s, want := range map[idempotency.EntryState]string{
		0: "invalid", idempotency.EntryClaimed: "claimed", idempotency.EntryInFlight: "in flight",
		idempotency.EntryDone: "done", idempotency.EntryMismatch: "mismatch", 5: "invalid",
	} {
		require.Equal(t, want, s.String())
	}
}

func TestAnOmittedRecordSendsNothing(t *testing.T) {
	h := handle(func(w http.ResponseWriter, r *http.Request) { idempotency.Record{Status: 500, Omitted: true}.Send(w) })
	require.Equal(t, http.StatusOK, request{}.to(h).Code)
}

// tenants is a service whose callers share a store. It answers as the path says:
// with a status, and so many bytes.
func tenants(store idempotency.Store) func(account, key, path string) int {
	h := idempotency.Middleware(func(r *http.Request) (string, error) { return r.Header.Get("Account"), nil },
		idempotency.Options{Store: store})(handle(func(w http.ResponseWriter, r *http.Request) {
		status, size, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		code, _ := strconv.Atoi(status)
		length, _ := strconv.Atoi(size)
		w.WriteHeader(code)
		w.Write(make([]byte, length))
	}))
	return func(account, key, path string) int {
		return request{key: key, path: path, header: http.Header{"Account": {account}}}.to(h).Code
	}
}

func TestRefusedRequestsLockNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := tenants(&idempotency.MemoryStore{MaxRecords: 100})
		require.Equal(t, 201, ask("ann", "before", "201"))
		for i := range 1000 {
			require.Equal(t, 422, ask("mallory", strconv.Itoa(i), "422"))
		}
		require.Equal(t, 201, ask("ann", "before", "201"))
		require.Equal(t, 201, ask("ann", "after", "201"))
	})
}

// A caller that fills the store harms itself: the others find room until all
// have the same.
func TestACallerThatFillsTheStoreLocksNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &idempotency.MemoryStore{MaxRecords: 100}
		ask := tenants(store)
		require.Equal(t, 201, ask("ann", "before", "201"))
		full := 0
		for i := range 1000 {
			if ask("mallory", strconv.Itoa(i), "201") == http.StatusServiceUnavailable {
				full++
			}
		}
		require.Equal(t, 901, full)
		for i := range 49 {
			require.Equal(t, 201, ask("ann", strconv.Itoa(i), "201"))
		}
		require.Equal(t, http.StatusServiceUnavailable, ask("ann", "more", "201"))
		require.Equal(t, 201, ask("ben", "a", "201"))
		require.Equal(t, 201, ask("ann", "48", "201"), "kept")
		require.Equal(t, 100, store.Len())
	})
}

// What is older than Keep makes room too, that of the caller with the most first.
func TestACallerThatFillsTheStoreDoesNotDriveOutTheOldKeysOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &idempotency.MemoryStore{MaxRecords: 100, MaxBytes: 100_000}
		ask := tenants(store)
		require.Equal(t, 201, ask("ann", "k", "201/1000"))
		for i := range 1000 {
			time.Sleep(10 * time.Second)
			require.Equal(t, 201, ask("mallory", strconv.Itoa(i), "201/1500"))
		}
		before := store.Len()
		require.Equal(t, 201, ask("ann", "k", "201/1000"))
		require.Equal(t, before, store.Len(), "kept")
	})
}

// A flood of young keys, or of large young responses, does not itself drive out
// what is older than Keep.
func TestAFloodDoesNotDriveOutTheOldKeysOfOthers(t *testing.T) {
	for _, path := range []string{"201", "201/20000"} {
		synctest.Test(t, func(t *testing.T) {
			store := &idempotency.MemoryStore{MaxRecords: 100, MaxBytes: 100_000}
			ask := tenants(store)
			require.Equal(t, 201, ask("ann", "k", "201/1"))
			time.Sleep(time.Hour)
			for i := range 1000 {
				ask("mallory", strconv.Itoa(i), path)
			}
			require.Equal(t, 422, ask("ann", "k", "201/2"), "not forgotten")
			require.Equal(t, 201, ask("ben", "k", "201/1"), "and there is room for others")
			store.CheckBooks(t)
		})
	}
}

// A store of one key for each caller has no room for one more caller, and
// forgets none.
func TestEqualSharesAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := tenants(&idempotency.MemoryStore{MaxRecords: 10})
		for i := range 10 {
			require.Equal(t, 201, ask(strconv.Itoa(i), "k", "201"))
		}
		require.Equal(t, http.StatusServiceUnavailable, ask("another", "k", "201"))
		time.Sleep(10 * time.Minute)
		require.Equal(t, 201, ask("another", "k", "201"))
	})
}

func TestLargeResponsesOfACallerTakeNoRoomFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := tenants(&idempotency.MemoryStore{MaxBytes: 100_000})
		for i := range 10 {
			require.Equal(t, 201, ask("mallory", strconv.Itoa(i), "201/10000"))
		}
		require.Equal(t, 201, ask("ann", "k", "201/10000"))
		require.Equal(t, 201, ask("ann", "k", "201/10000"), "kept")
		require.Equal(t, http.StatusGone, ask("mallory", "0", "201/10000"), "the effect is not forgotten")
		require.Equal(t, 201, ask("mallory", "1", "201/10000"))
		require.Equal(t, 201, ask("mallory", "one-more", "201/10000"))
		require.Equal(t, http.StatusGone, ask("mallory", "one-more", "201/10000"), "the largest makes room for itself last")
		for i := range 4 {
			require.Equal(t, 201, ask("ann", strconv.Itoa(i), "201/10000"))
			require.Equal(t, 201, ask("ann", strconv.Itoa(i), "201/10000"))
		}
		require.Equal(t, 201, ask("ann", "half", "201/10000"))
		require.Equal(t, http.StatusGone, ask("ann", "half", "201/10000"))
	})
}

// The Locations of omitted responses count too, and make room like bodies.
func TestLocationsOfACallerTakeNoRoomFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{t, idempotency.MemoryStore{MaxBytes: 10_000}}
		begin := func(caller string, i int) idempotency.Entry {
			return m.begin(strings.Repeat(caller, 32) + fmt.Sprintf("%032d", i))
		}
		finish := func(c idempotency.Claim, r idempotency.Record) { require.NoError(t, m.Finish(t.Context(), c, r)) }
		to := http.Header{"Location": {strings.Repeat("/", 1000)}}
		for i := range 100 {
			finish(begin("a", i).Claim, idempotency.Record{Status: 303, Header: to})
			m.CheckBooks(t)
		}
		require.Equal(t, to, begin("a", 0).Record.Header, "the largest makes room for itself last")
		require.Equal(t, idempotency.Record{Status: 303, Omitted: true}, begin("a", 99).Record)
		finish(begin("b", 0).Claim, idempotency.Record{Status: 200, Body: make([]byte, 4000)})
		require.Len(t, begin("b", 0).Record.Body, 4000)
		require.Equal(t, 303, begin("a", 0).Record.Status, "the effect is not forgotten")
		m.CheckBooks(t)
	})
}

func TestRefusalsAreKeptForKeepOnly(t *testing.T) {
	for keep, want := range map[time.Duration]time.Duration{
		0: 10 * time.Minute, time.Minute: time.Minute, -1: 24 * time.Hour, 48 * time.Hour: 24 * time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &idempotency.MemoryStore{Keep: keep}
			ask := tenants(store)
			for _, status := range []string{"399", "400", "499"} {
				ask("ann", status, status)
			}
			time.Sleep(want - 1)
			ask("ann", "399", "399")
			require.Equal(t, 3, store.Len())
			time.Sleep(time.Nanosecond)
			ask("ann", "399", "399")
			require.Equal(t, 1, store.Len())
		})
	}
}

// A run may end long after its lease. Its key does not make room for its own
// response.
func TestALateResponseOfAFullStoreIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{t, idempotency.MemoryStore{MaxBytes: 100}}
		late := m.begin("late")
		m.done("other", strings.Repeat("x", 60))
		time.Sleep(time.Hour)
		require.NoError(t, m.Finish(context.Background(), late.Claim, idempotency.Record{Status: 200, Body: make([]byte, 60)}))
		require.Len(t, m.begin("late").Record.Body, 60)
		require.Equal(t, 1, m.Len())
	})
}

// Whatever callers do, the store keeps its limits, and forgets nothing that is
// in flight.
func TestASharedStoreKeepsItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &idempotency.MemoryStore{MaxRecords: 50, MaxBytes: 5000, Keep: time.Minute, TTL: time.Hour}
		random := rand.New(rand.NewPCG(1, 2))
		var flying []idempotency.Claim
		for range 20_000 {
			time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
			caller := strings.Repeat(strconv.Itoa(random.IntN(8)), 32)
			key := caller + strings.Repeat("0", 30) + strconv.Itoa(10+random.IntN(90))
			entry, err := store.Begin(t.Context(), key, "print", 24*time.Hour)
			if err != nil {
				require.ErrorIs(t, err, idempotency.ErrStoreFull)
			} else if entry.State == idempotency.EntryClaimed {
				flying = append(flying, entry.Claim)
			}
			require.LessOrEqual(t, store.Len(), 50)
			if len(flying) > 20 {
				at := random.IntN(len(flying))
				c := flying[at]
				flying = append(flying[:at], flying[at+1:]...)
				if random.IntN(4) == 0 {
					require.NoError(t, store.Release(t.Context(), c))
					continue
				}
				for range 1 + random.IntN(2) {
					r := idempotency.Record{Status: 200 + random.IntN(250), Body: make([]byte, random.IntN(2000)),
						Header: http.Header{"Location": {strings.Repeat("/", random.IntN(1000))}}}
					require.NoError(t, store.Finish(t.Context(), c, r))
				}
			}
		}
		store.CheckBooks(t)
	})
}

// One Middleware may serve several paths that handlers see as the same.
func TestAKeyBelongsToTheTargetThatTheClientSent(t *testing.T) {
	runs := 0
	once := idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{})
	h := once(handle(func(w http.ResponseWriter, r *http.Request) { runs++ }))
	mux := http.NewServeMux()
	for _, prefix := range []string{"/charges", "/refunds"} {
		mux.Handle(prefix+"/", http.StripPrefix(prefix, h))
	}
	s := service(t, mux)
	status := func(target, host string) int {
		r := request{key: "k"}.on(t.Context(), s.URL)
		r.URL.Path, r.Host = target, host
		resp, _ := exchange(t, s, r)
		return resp.StatusCode
	}
	require.Equal(t, http.StatusOK, status("/charges/1", "a.example"))
	require.Equal(t, http.StatusOK, status("/charges/1", "A.example"))
	require.Equal(t, http.StatusUnprocessableEntity, status("/refunds/1", "a.example"))
	require.Equal(t, http.StatusUnprocessableEntity, status("/charges/1", "b.example"))
	require.Equal(t, 1, runs)

	// A client sends the whole URL if it takes the server for a proxy, and
	// HTTP/2 sends the path.
	for target, want := range map[string]int{
		"/charges/1":                 http.StatusOK,
		"http://a.example/charges/1": http.StatusOK,
		"/refunds/1":                 http.StatusUnprocessableEntity,
		"http://a.example/refunds/1": http.StatusUnprocessableEntity,
		"*":                          http.StatusUnprocessableEntity,
		"":                           http.StatusUnprocessableEntity,
	} {
		r := request{key: "k"}.on(t.Context(), "http://a.example")
		r.URL.Path, r.RequestURI = "/1", target
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, target)
	}
}
