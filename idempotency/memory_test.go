package idempotency_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff/idempotency"
	"github.com/gobackoff/backoff/idempotency/storetest"
	"github.com/stretchr/testify/require"
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

func TestMemoryStoreForgetsAfterTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{0: 24 * time.Hour, time.Hour: time.Hour, -1: 10_000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{T: t}
			m.TTL = ttl
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
		m := &memory{T: t}
		m.TTL = time.Second
		m.MaxRecords = 2
		m.Keep = time.Second
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
		m := &memory{T: t}
		m.MaxRecords = 3
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
		m := &memory{T: t}
		m.MaxRecords, m.Keep = 1, -1
		m.done("0", "x")
		time.Sleep(24*time.Hour - 1)
		_, err := m.Begin(context.Background(), "1", "print", time.Minute)
		require.ErrorIs(t, err, idempotency.ErrStoreFull)
		time.Sleep(time.Nanosecond)
		m.done("1", "x")
	})
}

func TestMemoryStoreWithoutLimits(t *testing.T) {
	m := &memory{T: t}
	m.MaxRecords, m.MaxBytes = -1, -1
	for i := range 70000 {
		m.done(strconv.Itoa(i), "x")
	}
	m.done("large", strings.Repeat("x", 65<<20))
	require.Len(t, m.begin("large").Record.Body, 65<<20)
	require.Equal(t, 70001, m.Len())
}

func TestMemoryStoreOmitsWhatFindsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{T: t}
		m.MaxBytes = 100
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

func TestAFullStoreIsAnswered503(t *testing.T) {
	store := &idempotency.MemoryStore{MaxRecords: 1}
	c := new(charging)
	h := once(c, idempotency.Options{Store: store})
	require.Equal(t, http.StatusCreated, request{key: "a"}.to(h).Code)
	require.Equal(t, http.StatusServiceUnavailable, request{key: "b"}.to(h).Code)
	require.Equal(t, http.StatusCreated, request{key: "a"}.to(h).Code)
	require.EqualValues(t, 1, c.charges.Load())
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
