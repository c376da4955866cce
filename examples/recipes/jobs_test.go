package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

var _ = createTables + claimRow + saveRow + removeRow + holdHost + freeHost // which a test in examples/clients/postgres runs

// table has the rows as a database would keep them.
type table map[string][]byte

var tableLock sync.Mutex

// claim is claimRow.
func (rows table) claim() (j delivery, ok bool) {
	tableLock.Lock()
	defer tableLock.Unlock()
	for id := range rows {
		if j = rows.job(id); j.Error == "" && !time.Now().Before(j.Due) {
			j.Due = time.Now().Add(time.Minute)
			rows.add(j)
			return j, true
		}
	}
	return j, false
}

// save is saveRow.
func (rows table) save(j delivery, claimed time.Time) {
	tableLock.Lock()
	defer tableLock.Unlock()
	if _, there := rows[j.ID]; there && rows.job(j.ID).Due.Equal(claimed) {
		rows.add(j)
	}
}

// remove is removeRow.
func (rows table) remove(j delivery) {
	tableLock.Lock()
	defer tableLock.Unlock()
	if _, there := rows[j.ID]; there && rows.job(j.ID).Due.Equal(j.Due) {
		delete(rows, j.ID)
	}
}

// run makes the attempts that are due, by a process that begins now and stops after some time. It
// looks every 5 s: so let it stop in between, or it may stop in the middle of an attempt.
func (rows table) run(ctx context.Context, lives time.Duration, send func(context.Context, delivery) error) {
	ctx, stop := context.WithTimeout(ctx, lives)
	defer stop()
	claim := func(context.Context) (delivery, bool) { return rows.claim() }
	save, remove, hold := rows.save, rows.remove, (func(string, time.Duration))(nil)

	w := &worker{
		receivers: receivers(), // a circuit for each host
		send:      send,        // a plain http.Client that follows no redirect, and backoffhttp.Check(resp, backoffhttp.Status2xx)
		save:      save,        // by saveRow
		remove:    remove,      // by removeRow
		hold:      hold,        // by holdHost; without it, a restart forgets a Retry-After
	}
	for ctx.Err() == nil {
		if j, ok := claim(ctx); ok { // by claimRow
			w.attempt(ctx, j)
			continue
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
	}
}

func (rows table) job(id string) (j delivery) {
	if err := json.Unmarshal(rows[id], &j); err != nil {
		panic(err)
	}
	return j
}

func (rows table) add(j delivery) {
	if j.Created.IsZero() {
		j.Created = time.Now()
	}
	rows[j.ID] = must(json.Marshal(j))
}

// The process is replaced each half hour. The attempts go on as if it were one.
func TestAJobIsRetriedByTheNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, began := table{}, time.Now()
		rows.add(delivery{ID: "slow", Host: "slow"})
		rows.add(delivery{ID: "gone", Host: "gone"})
		rows.add(delivery{ID: "moved", Host: "moved"})
		rows.add(delivery{ID: "later", Host: "later"})
		at := map[string][]time.Duration{}
		send := func(_ context.Context, j delivery) error {
			at[j.ID] = append(at[j.ID], time.Since(began))
			switch {
			case j.ID == "gone":
				return &backoffhttp.StatusError{Code: 410}
			case j.ID == "moved":
				return backoffhttp.Check(&http.Response{StatusCode: http.StatusFound}, backoffhttp.Status2xx)
			case j.ID == "later" && len(at["later"]) == 1:
				return backoff.RetryAfter(&backoffhttp.StatusError{Code: 429}, 2*time.Hour)
			case j.ID == "later":
				return nil
			}
			return &backoffhttp.StatusError{Code: 503}
		}
		for range 2 * 36 {
			rows.run(t.Context(), 30*time.Minute+time.Second, send)
		}

		for _, id := range []string{"gone", "moved"} {
			if len(at[id]) != 1 || rows.job(id).Error == "" {
				t.Errorf("%s: %d attempts, %q", id, len(at[id]), rows.job(id).Error)
			}
		}
		if len(at["later"]) != 2 || at["later"][1] < 2*time.Hour || rows["later"] != nil {
			t.Errorf("a Retry-After of two hours: attempts at %v", at["later"])
		}
		slow := at["slow"]
		if len(slow) != 10 || slow[9] < 8*time.Hour || rows.job("slow").Failures != 10 {
			t.Fatalf("attempts at %v: %+v", slow, rows.job("slow"))
		}
		for n, delay := 1, 2*time.Minute; n < 10; n, delay = n+1, min(2*delay, 8*time.Hour) {
			if wait := slow[n] - slow[n-1]; wait < delay/2 || wait > delay+6*time.Second {
				t.Errorf("wait %d was %v, want half of %v or more", n, wait, delay)
			}
		}
		if want := "backoff: webhook: gave up after 10 attempts: status 503 Service Unavailable"; rows.job("slow").Error != want {
			t.Errorf("%q", rows.job("slow").Error)
		}
	})
}

// Many jobs are for a receiver that is down. Its open circuit costs none of them an attempt.
func TestAnOpenCircuitCostsAJobNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, sent := table{}, map[string]int{}
		for n := range 20 {
			rows.add(delivery{ID: string(rune('a' + n)), Host: "down"})
		}
		refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		rows.run(t.Context(), time.Hour+time.Second, func(_ context.Context, j delivery) error { sent[j.ID]++; return refused })
		var counts []int
		for id := range rows {
			if j := rows.job(id); j.Failures != sent[id] || j.Error != "" {
				t.Errorf("%d attempts: %+v", sent[id], j)
			}
			counts = append(counts, sent[id])
		}
		if slices.Max(counts) > 7 {
			t.Errorf("attempts in an hour: %v", counts)
		}
	})
}

// Twenty jobs are due at once. Those that come after the circuit has opened wait as the host asked.
func TestARetryAfterHoldsForAllJobsOfAHost(t *testing.T) {
	for code, most := range map[int]int{503: 8, 429: 25} {
		synctest.Test(t, func(t *testing.T) {
			rows, sent := table{}, 0
			for n := range 60 {
				rows.add(delivery{ID: string(rune('A' + n)), Host: "down"})
			}
			rows.run(t.Context(), time.Hour, func(context.Context, delivery) error {
				sent++
				time.Sleep(600 * time.Millisecond)
				return backoff.RetryAfter(&backoffhttp.StatusError{Code: code}, 3700*time.Second)
			})
			if sent > most {
				t.Errorf("%d requests, want at most %d", sent, most)
			}
		})
	}
}

// A receiver that is down for eight hours gets each row afterwards. One that is down for
// longer than 16 gets none.
func TestAReceiverThatIsDownForTooLongLosesItsRows(t *testing.T) {
	for outage, lost := range map[time.Duration]int{8 * time.Hour: 0, 17 * time.Hour: 20} {
		synctest.Test(t, func(t *testing.T) {
			rows, up := table{}, time.Now().Add(outage)
			for n := range 20 {
				rows.add(delivery{ID: string(rune('a' + n)), Host: "down"})
			}
			rows.run(t.Context(), 30*time.Hour, func(context.Context, delivery) error {
				if time.Now().Before(up) {
					return &backoffhttp.StatusError{Code: 503}
				}
				return nil
			})
			if len(rows) != lost {
				t.Errorf("down for %v: %d rows lost, want %d", outage, len(rows), lost)
			}
		})
	}
}

// A job that has failed often is refused by an open circuit. It does not wait for hours then.
func TestAJobThatACircuitRefusedIsTriedSoonAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var row delivery
		sent, removed := 0, false
		w := &worker{
			receivers: receivers(),
			send:      func(context.Context, delivery) error { sent++; return nil },
			save:      func(j delivery, _ time.Time) { row = j },
			remove:    func(delivery) { removed = true },
		}
		_, breaker := w.receivers.For("down").Parts()
		breaker.Trip()
		w.attempt(t.Context(), delivery{Host: "down", Failures: 8, Created: time.Now()})
		if wait := time.Until(row.Due); row.Failures != 8 || sent > 0 || wait < time.Minute || wait > 2*time.Minute {
			t.Fatalf("%+v, due in %v", row, wait)
		}
		time.Sleep(time.Until(row.Due))
		if w.attempt(t.Context(), row); !removed {
			t.Errorf("%+v is not delivered", row)
		}
	})
}

// A Retry-After of an answer is stored for other processes. The wait for an open circuit is not.
func TestARetryAfterIsStoredForOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := map[string]time.Duration{}
		w := &worker{
			receivers: receivers(),
			send: func(_ context.Context, j delivery) error {
				if j.Host == "plain" {
					return &backoffhttp.StatusError{Code: 503}
				}
				after := time.Hour
				if j.Host == "never" {
					after = 10_000 * time.Hour
				}
				return backoff.RetryAfter(&backoffhttp.StatusError{Code: 503}, after)
			},
			save: func(delivery, time.Time) {},
			hold: func(host string, after time.Duration) { held[host] = after },
		}
		_, breaker := w.receivers.For("open").Parts()
		breaker.Trip()
		for _, host := range []string{"busy", "never", "plain", "open"} {
			w.attempt(t.Context(), delivery{Host: host, Created: time.Now()})
		}
		if len(held) != 2 || held["busy"] != time.Hour || held["never"] != delivering.MaxRetryAfter {
			t.Errorf("%v", held)
		}
	})
}

// One row was sent once and has failed. The other one was never sent.
func TestARowThatIsTooOldIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var row delivery
		w := &worker{
			receivers: receivers(),
			send:      func(context.Context, delivery) error { return &backoffhttp.StatusError{Code: 503} },
			save:      func(j delivery, _ time.Time) { row = j },
		}
		_, breaker := w.receivers.For("open").Parts()
		breaker.Trip()
		for age, given := range map[time.Duration]bool{maxAge - time.Hour: false, maxAge + time.Hour: true} {
			for host, failures := range map[string]int{"fails": 1, "open": 0} {
				w.attempt(t.Context(), delivery{Host: host, Created: time.Now().Add(-age)})
				if row.Failures != failures || given != (row.Error != "") {
					t.Errorf("%s after %v: %+v", host, age, row)
				}
			}
		}
		if t.Log(row.Error); !strings.Contains(row.Error, "gave up") && !strings.Contains(row.Error, "not started") {
			t.Error(row.Error)
		}
	})
}

// The broker is away for six hours, with errors that nobody knows.
func TestAnOutboxOutlivesItsBroker(t *testing.T) {
	defer func(p backoff.Policy) { delivering = p }(delivering)
	delivering.Classify, delivering.MaxAttempts = nil, -1
	delivering.Schedule = backoff.Exponential{Initial: time.Second, Max: time.Minute}
	synctest.Test(t, func(t *testing.T) {
		rows, up := table{}, time.Now().Add(6*time.Hour)
		for n := range 20 {
			rows.add(delivery{ID: string(rune('a' + n)), Host: "broker"})
		}
		rows.run(t.Context(), 7*time.Hour, func(context.Context, delivery) error {
			if time.Now().Before(up) {
				return errors.New("no broker")
			}
			return nil
		})
		if len(rows) > 0 {
			t.Errorf("%d messages are left", len(rows))
		}
	})
}

// A process that stops in the middle of an attempt leaves the job to the next one.
func TestAProcessThatStopsCostsAJobNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := table{}
		rows.add(delivery{ID: "a", Host: "a"})
		ctx, stop := context.WithCancel(t.Context())
		rows.run(ctx, time.Second, func(ctx context.Context, _ delivery) error { stop(); return ctx.Err() })
		if j := rows.job("a"); j.Failures != 0 || j.Error != "" {
			t.Errorf("%+v", j)
		}
	})
}

// Five workers share the table. One dies while it sends, one is stopped for two minutes, and one
// loses its connection to the database when it wants to save. The receivers hang or fail at times.
func TestAClaimIsNeitherLostNorShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, sending, delivered := table{}, map[string]int{}, map[string]int{}
		for n := range 50 {
			rows.add(delivery{ID: string(rune('A' + n)), Host: string(rune('A' + n))})
		}
		var mu sync.Mutex
		count := func(id string, n int) int {
			mu.Lock()
			defer mu.Unlock()
			sending[id] += n
			return sending[id]
		}
		sends := 0
		send := func(ctx context.Context, j delivery) error {
			if n := count(j.ID, 1); n > 1 {
				t.Errorf("%s is sent %d times at once", j.ID, n)
			}
			defer count(j.ID, -1)
			mu.Lock()
			sends++
			n := sends
			mu.Unlock()
			switch {
			case n%7 == 0:
				<-ctx.Done()
				return ctx.Err()
			case n%5 == 0:
				time.Sleep(9 * time.Second)
				return &backoffhttp.StatusError{Code: 503}
			}
			time.Sleep(3 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			delivered[j.ID]++
			return nil
		}
		var all sync.WaitGroup
		dying, die := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, die)
		for n := range 5 {
			ctx := t.Context()
			w := &worker{receivers: receivers(), send: send, save: rows.save, remove: rows.remove}
			switch n {
			case 0:
				ctx = dying
			case 1:
				w.save = func(j delivery, claimed time.Time) { time.Sleep(2 * time.Minute); rows.save(j, claimed) }
			case 2:
				w.save = func(delivery, time.Time) {}
			}
			all.Go(func() {
				for end := time.Now().Add(24 * time.Hour); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(5 * time.Second) {
					for j, ok := rows.claim(); ok && ctx.Err() == nil; j, ok = rows.claim() {
						w.attempt(ctx, j)
					}
				}
			})
		}
		all.Wait()
		for id, n := range delivered {
			if n != 1 {
				t.Errorf("%s is delivered %d times", id, n)
			}
		}
		if len(delivered) != 50 || len(rows) > 0 {
			t.Errorf("%d of 50 are delivered, %d rows are left", len(delivered), len(rows))
		}
	})
}

// net/http returns the cause of an attempt's end, and not context.DeadlineExceeded.
func TestAReceiverThatHangsCostsAnAttemptAndNotTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := table{}
		rows.add(delivery{ID: "a", Host: "a"})
		rows.run(t.Context(), 11*time.Second, func(ctx context.Context, _ delivery) error {
			<-ctx.Done()
			return &url.Error{Op: "Post", Err: context.Cause(ctx)}
		})
		if j := rows.job("a"); j.Failures != 1 || j.Error != "" {
			t.Errorf("%+v", j)
		}
	})
}

// A worker that was stopped for too long does not remove what the next one has claimed.
func TestALateRemoveChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := table{}
		rows.add(delivery{ID: "a", Host: "a"})
		late, _ := rows.claim()
		time.Sleep(time.Minute)
		next, _ := rows.claim()
		if rows.remove(late); rows["a"] == nil {
			t.Error("the next worker's row is removed")
		}
		if rows.remove(next); rows["a"] != nil {
			t.Error("the row is not removed")
		}
	})
}

// A worker that was stopped for too long does not write over what the next one has written.
func TestALateSaveChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := table{}
		rows.add(delivery{ID: "a", Host: "a", Failures: 8})
		stopped := 2 * time.Minute
		fails := func(context.Context, delivery) error { return &backoffhttp.StatusError{Code: 503} }
		late := &worker{receivers: receivers(), send: fails, save: func(j delivery, claimed time.Time) { time.Sleep(stopped); rows.save(j, claimed) }}
		next := &worker{receivers: receivers(), send: fails, save: rows.save}
		j, _ := rows.claim()
		go late.attempt(t.Context(), j)
		time.Sleep(time.Minute)
		j, ok := rows.claim()
		if !ok {
			t.Fatal("the row of a worker that was stopped is lost")
		}
		next.attempt(t.Context(), j)
		want := rows.job("a")
		time.Sleep(stopped)
		if got := rows.job("a"); got != want || got.Failures != 9 {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}
