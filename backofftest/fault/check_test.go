package fault_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backofftest/fault"
)

// A failing test keeps what is said of it.
type failing struct {
	testing.TB
	said   string
	failed bool
	end    []func()
}

func (f *failing) Helper()                      {}
func (f *failing) Failed() bool                 { return f.failed }
func (f *failing) Cleanup(do func())            { f.end = append(f.end, do) }
func (f *failing) Logf(s string, args ...any)   { f.said += fmt.Sprintf(s, args...) }
func (f *failing) Error(args ...any)            { f.failed, f.said = true, f.said+fmt.Sprint(args...) }
func (f *failing) Fatalf(s string, args ...any) { f.Error(fmt.Sprintf(s, args...)) }

// send makes requests with these keys and bodies, a second apart.
func send(t *testing.T, sent *fault.Injector, requests ...[2]string) {
	rt := sent.Handler(new(shop))
	for n, request := range requests {
		if n > 0 {
			time.Sleep(time.Second)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop/orders", strings.NewReader(request[1]))
		require.NoError(t, err)
		r.Header.Set("Idempotency-Key", request[0])
		if resp, err := rt.RoundTrip(r); err == nil && request[0] != "open" {
			resp.Body.Close()
		}
	}
}

func TestAChecksFailureShowsAllAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := &fault.Injector{Plan: fault.Script(fault.Lost(), fault.Status(503).RetryAfter(time.Second))}
		send(t, sent, [2]string{"k7", "hello"}, [2]string{"k8", "hello"}, [2]string{"open", "other"})
		f := new(failing)
		sent.Check(f, 2, fault.SameKey, fault.WholeBody, fault.Closed, fault.Waits(time.Second, 2*time.Second))
		require.Equal(t, `3 attempts, want 2
attempt 2 has no Idempotency-Key, or not that of the first attempt
attempt 3 did not send the whole body of the first attempt
attempt 3 has a response whose body is not closed
waits of [1s 1s], want [1s 2s]
1 after 0s: POST /orders, key "k7", body of 5 B 2cf24d, whole true; Lost: status 0, error read tcp: connection reset by peer, open false
2 after 1s: POST /orders, key "k8", body of 5 B 2cf24d, whole true; Status(503).RetryAfter(1s): status 503, error <nil>, open false
3 after 2s: POST /orders, key "open", body of 5 B d9298a, whole true; OK: status 200, error <nil>, open true
`, f.said)
	})
}

func TestChecksHoldForARequestThatIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := &fault.Injector{Plan: fault.Script(fault.Lost(), fault.Reset(), fault.Status(503))}
		for range 4 {
			send(t, sent, [2]string{"k", "hello"})
		}
		sent.Check(t, 4, fault.SameKey, fault.WholeBody, fault.Closed, fault.Waits(0, 0, 0))
	})
}

func TestARequestWithoutAKeyIsFound(t *testing.T) {
	sent := new(fault.Injector)
	send(t, sent, [2]string{"", "hello"})
	require.ErrorContains(t, fault.SameKey(sent.Attempts()), "no Idempotency-Key")
}

func TestABodyThatIsNotReadIsFound(t *testing.T) {
	sent := new(fault.Injector)
	_, _, err := order(t.Context(), sent.Handler(http.NotFoundHandler()))
	require.NoError(t, err)
	require.ErrorContains(t, fault.WholeBody(sent.Attempts()), "did not send the whole body")
}

func TestAPlanKnowsTheRequest(t *testing.T) {
	var got fault.Attempt
	sent := &fault.Injector{Plan: func(a fault.Attempt) fault.Fault { got = a; return fault.Reset() }}
	send(t, sent, [2]string{"k", "hello"})
	require.Equal(t, []any{1, "POST", "/orders", "k"}, []any{got.Number, got.Method, got.Path, got.Key})
}

func TestTheSeedIsLoggedIfTheTestFails(t *testing.T) {
	f := new(failing)
	t.Setenv("FAULT_SEED", "42")
	fault.Randomly(f, 0.5, fault.Reset())
	f.end[0]()
	require.Empty(t, f.said)
	f.failed = true
	f.end[0]()
	require.Contains(t, f.said, "FAULT_SEED=42")
	t.Setenv("FAULT_SEED", "x")
	fault.Randomly(f, 0.5, fault.Reset())
	require.Contains(t, f.said, "invalid syntax")
}

func TestFaultsAreTheSameForASeed(t *testing.T) {
	draw := func(seed string) (counts map[fault.Fault]int, order []fault.Fault) {
		t.Setenv("FAULT_SEED", seed)
		plan := fault.Randomly(t, 0.3, fault.Lost(), fault.Reset())
		counts = make(map[fault.Fault]int)
		for n := range 10000 {
			f := plan(fault.Attempt{Number: n + 1})
			counts[f]++
			order = append(order, f)
		}
		return counts, order
	}
	counts, first := draw("1")
	require.InDelta(t, 1500, counts[fault.Lost()], 130)
	require.InDelta(t, 1500, counts[fault.Reset()], 130)
	_, again := draw("1")
	_, other := draw("2")
	_, unseeded := draw("")
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)
	require.NotEqual(t, first, unseeded)
}

func TestAFaultReadsAsItsCode(t *testing.T) {
	for want, f := range map[string]fault.Fault{
		"OK": fault.OK(), "Status(503)": fault.Status(503).Body("x"), "Reset": fault.Reset(), "Lost": fault.Lost(), "Cut(3)": fault.Cut(3),
		"Slow(1s)": fault.Slow(time.Second), "Hang": fault.Hang(), "Status(429).RetryAfter(2s)": fault.Status(429).RetryAfter(2 * time.Second),
	} {
		require.Equal(t, want, f.String())
	}
}

func TestTheFirstThousandAttemptsAreKept(t *testing.T) {
	sent, last := new(fault.Injector), 0
	sent.SetPlan(func(a fault.Attempt) fault.Fault { last = a.Number; return fault.OK() })
	for range 1001 {
		require.NoError(t, sent.Op(func(context.Context) error { return nil })(t.Context()))
	}
	require.Equal(t, []int{1001, 1000}, []int{last, len(sent.Attempts())})
}

func TestWaitsWithinBoundsEachWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := &fault.Injector{Plan: fault.Script(fault.Reset(), fault.Reset())}
		op := sent.Op(func(context.Context) error { return nil })
		for _, wait := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 0} {
			_ = op(t.Context())
			time.Sleep(wait)
		}
		sent.Check(t, 3, fault.WaitsWithin(100*time.Millisecond, 400*time.Millisecond))
		require.ErrorContains(t, fault.WaitsWithin(101*time.Millisecond, time.Second)(sent.Attempts()), "waits of [100ms 400ms], want 101ms to 1s")
		require.Error(t, fault.WaitsWithin(0, 399*time.Millisecond)(sent.Attempts()))
	})
}
