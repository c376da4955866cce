package guides

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest"
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

// A local transport answers requests without a network.
type local struct{ http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Result(), nil
}

func TestTheClientWaitsAsLongAsTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests == 1 {
				w.Header().Set("Retry-After", "2")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		client := http.Client{Transport: &backoffhttp.Transport{Base: local{server}}}
		began := time.Now()
		resp, err := client.Get("http://shop/orders")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		if took := time.Since(began); took < 2*time.Second || requests != 2 {
			t.Errorf("%d requests in %v", requests, took)
		}
	})
}

func TestALostAnswerIsAskedForAgain(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			panic(http.ErrAbortHandler) // the answer to the first request is lost
		}
		_, _ = io.WriteString(w, "order 7")
	}))
	defer server.Close()
	client := backoffhttp.Client(backoff.Policy{Schedule: backoff.Constant(0)})
	resp, err := client.Get(server.URL)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestOurScheduleKeepsTheContract(t *testing.T) {
	backofftest.Schedule(t, backoff.ScheduleFunc(func(retry int) time.Duration {
		return time.Duration(min(retry, 10)) * time.Second
	}))
}
