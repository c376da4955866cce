package guides

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/backofftest/fault"
)

// A Shop is code under test. It gets its retries from outside.
type Shop struct {
	Retry backoff.Doer
	Save  func(context.Context) error
}

func (s Shop) Order(ctx context.Context) error { return s.Retry.Do(ctx, s.Save) }

var errDown = errors.New("down")

// failing returns an operation that fails n times, and a count of its calls.
func failing(n int) (op func(context.Context) error, calls *int) {
	calls = new(int)
	return func(context.Context) error {
		if *calls++; *calls <= n {
			return errDown
		}
		return nil
	}, calls
}

func TestAnOrderIsTriedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		save, calls := failing(2)
		shop := Shop{Retry: backoff.Policy{Jitter: backoff.NoJitter}, Save: save}
		began := time.Now()
		if err := shop.Order(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); *calls != 3 || took != 300*time.Millisecond {
			t.Errorf("%d calls in %v, want 3 in 300ms", *calls, took)
		}
	})
}

func TestAnOrderGivesUpAfterThreeAttempts(t *testing.T) {
	save, calls := failing(10)
	shop := Shop{Retry: backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(0)}, Save: save}
	err := shop.Order(t.Context())
	if !errors.Is(err, backoff.ErrExhausted) || !errors.Is(err, errDown) || *calls != 3 {
		t.Errorf("%v after %d calls", err, *calls)
	}
	var gave *backoff.Error
	if !errors.As(err, &gave) || gave.Reason != backoff.ReasonAttempts || gave.Attempts != 3 {
		t.Errorf("%+v", gave)
	}
}

func TestAnOrderThatIsCancelledInTheSecondWaitEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		save, calls := failing(10)
		shop := Shop{Retry: backoff.Policy{Jitter: backoff.NoJitter}, Save: save}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(250*time.Millisecond, cancel) // a deadline would end the call before a wait that outlasts it
		began := time.Now()
		err := shop.Order(ctx)
		if took := time.Since(began); !errors.Is(err, context.Canceled) || *calls != 2 || took != 250*time.Millisecond {
			t.Errorf("%v after %d calls in %v", err, *calls, took)
		}
	})
}

func TestTheWaitsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		policy := backoff.Policy{
			Rand: func() float64 { return 0.5 },
			Observer: func(_ context.Context, e backoff.Event) {
				if e.Kind == backoff.EventRetry {
					waits = append(waits, e.Wait)
				}
			},
		}
		save, _ := failing(10)
		_ = policy.Do(t.Context(), save)
		want := []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}
		if !slices.Equal(waits, want) {
			t.Errorf("waits of %v, want %v", waits, want)
		}
	})
}

// broke is a Doer whose budget is spent.
type broke struct{}

func (broke) Do(ctx context.Context, op func(context.Context) error) error {
	return &backoff.Error{Attempts: 1, Reason: backoff.ReasonBudget, Last: op(ctx)}
}

func TestAnOrderFailsWhenTheBudgetIsSpent(t *testing.T) {
	save, calls := failing(1)
	err := Shop{Retry: broke{}, Save: save}.Order(t.Context())
	if !errors.Is(err, backoff.ErrBudget) || !errors.Is(err, errDown) || *calls != 1 {
		t.Errorf("%v after %d calls", err, *calls)
	}
}

func TestTheBreakerRefusesUntilTheServiceIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := &backoff.Breaker{ConsecutiveFailures: 3, ConsecutiveSpan: -1, Jitter: backoff.NoJitter}
		save, calls := failing(3)
		for range 5 {
			_ = breaker.Do(t.Context(), save)
		}
		if *calls != 3 || breaker.State() != backoff.BreakerOpen {
			t.Errorf("%d calls, the circuit is %v", *calls, breaker.State())
		}
		time.Sleep(5 * time.Second) // OpenFor
		for range 2 {               // ProbeSuccesses
			if err := breaker.Do(t.Context(), save); err != nil {
				t.Error(err)
			}
		}
		if breaker.State() != backoff.BreakerClosed {
			t.Errorf("the circuit is %v", breaker.State())
		}
	})
}

func TestTheClientWaitsAsLongAsTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := &fault.Injector{Plan: fault.Script(fault.Status(503).RetryAfter(2*time.Second), fault.Reset())}
		client := http.Client{Transport: &backoffhttp.Transport{Base: sent.Handler(orders())}}
		began := time.Now()
		resp, err := client.Get("http://shop/orders")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("the second request came after %v", took)
		}
		sent.Check(t, 3, fault.Closed)
	})
}

// orders is the service that the client calls.
func orders() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "order 7")
	})
}

func TestA503IsRetriedAfterTheTimeThatItAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{Jitter: backoff.NoJitter, Rand: func() float64 { return 0 }}
		sent := &fault.Injector{Plan: fault.Script(fault.Status(503).RetryAfter(10*time.Second), fault.Status(503))}
		client := http.Client{Transport: &backoffhttp.Transport{Policy: policy, Base: sent.Handler(orders())}}
		resp, err := client.Get("http://shop/orders")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		sent.Check(t, 3, fault.Waits(10*time.Second, 200*time.Millisecond))
	})
}

func TestAnOrderKeepsItsKeyAndItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := &fault.Injector{Plan: fault.Script(fault.Lost(), fault.Reset(), fault.Cut(2))}
		client := http.Client{Transport: &backoffhttp.Transport{Base: sent.Handler(orders()), ReadAhead: -1}}
		req, _ := http.NewRequest(http.MethodPost, "http://shop/orders", strings.NewReader("two pears"))
		req.Header.Set("Idempotency-Key", "k7")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		sent.Check(t, 4, fault.SameKey, fault.WholeBody, fault.Closed)
	})
}

func TestAFeedReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		sent := &fault.Injector{Plan: fault.Script(fault.Reset(), fault.Lost(), fault.Slow(time.Minute))}
		feed := backoff.Supervisor{Policy: backoff.Policy{Jitter: backoff.NoJitter}}
		connections := 0
		_ = feed.Run(ctx, sent.Op(func(context.Context) error {
			if connections++; connections == 3 {
				stop()
			}
			return errDown
		}))
		sent.Check(t, 4, fault.Waits(100*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond))
	})
}

func TestATransferIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := &fault.Injector{Plan: fault.Script(fault.OK(), fault.OK(), fault.Lost())} // BEGIN, INSERT, COMMIT
		bank := &bank{}
		db := sql.OpenDB(connector{sent.Dial(bank.dial)})
		defer db.Close()
		policy := backoff.Policy{Idempotency: backoff.Keyed}
		err := backoffsql.Tx(t.Context(), db, policy, nil, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT "+backoff.IdempotencyKey(ctx)+" ON CONFLICT DO NOTHING")
			return err
		})
		if err != nil || bank.commits != 2 || len(bank.transfers) != 1 {
			t.Errorf("%v, %d commits, transfers %v", err, bank.commits, bank.transfers)
		}
	})
}

func TestAnOrderIsMadeOnceUnderEachFault(t *testing.T) {
	made, number := make(map[int]bool), 0
	shop := Shop{Retry: numbered{&number}, Save: func(context.Context) error {
		made[number] = true // again, it changes nothing
		return nil
	}}
	forced := backofftest.Force(t)
	forced.Effect(func() int { return len(made) })
	forced.Run(shop.Order)
}

// numbered gives each call a number, which all its attempts have.
type numbered struct{ number *int }

func (n numbered) Do(ctx context.Context, op func(context.Context) error) error {
	*n.number++
	return backoff.Policy{}.Do(ctx, op)
}

func TestALibrarysClientRetries(t *testing.T) {
	fault.NoWaits(t)
	server := httptest.NewServer(orders())
	defer server.Close()
	sent := &fault.Injector{Plan: fault.Script(fault.Lost(), fault.Status(429).RetryAfter(time.Minute))}
	proxy, err := sent.Proxy(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	library := backoffhttp.Client(backoff.Policy{MaxAttempts: 3}) // stands in for the client of a library
	resp, err := library.Get(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	sent.Check(t, 3)
}

func TestOurScheduleKeepsTheContract(t *testing.T) {
	backofftest.Schedule(t, backoff.ScheduleFunc(func(retry int) time.Duration {
		return time.Duration(min(retry, 10)) * time.Second
	}))
}
