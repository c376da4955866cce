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

func (f *failing) Helper()                    {}
func (f *failing) Failed() bool               { return f.failed }
func (f *failing) Cleanup(do func())          { f.end = append(f.end, do) }
func (f *failing) Logf(s string, args ...any) { f.said += fmt.Sprintf(s, args...) }
func (f *failing) Errorf(s string, args ...any) {
	f.failed = true
	f.Logf(s, args...)
}
func (f *failing) Fatalf(s string, args ...any) { f.Errorf(s, args...) }

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
attempt 2 has another Idempotency-Key than the first one
attempt 3 has another body than attempt 1
attempt 3 has a response whose body is not closed
waits of [1s 1s], want [1s 2s]
#  after  request       key   sent        fault                      outcome
1  0s     POST /orders  k7    5 B 2cf24d  Lost                       read tcp: read: connection reset by peer
2  1s     POST /orders  k8    5 B 2cf24d  Status(503).RetryAfter(1)  503
3  2s     POST /orders  open  5 B d9298a  OK                         200, not closed
`, f.said)
	})
}

func TestChecksHoldForARequestThatIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := &fault.Injector{Plan: fault.Script(fault.CutRequest(2), fault.Reset(), fault.Lost())}
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

func TestAPlanKnowsTheRequest(t *testing.T) {
	var got fault.Attempt
	sent := &fault.Injector{Plan: func(a fault.Attempt) fault.Fault { got = a; return fault.Reset() }}
	send(t, sent, [2]string{"k", "hello"})
	require.Equal(t, []any{1, "POST", "/orders", "k"}, []any{got.Number, got.Method, got.Path, got.Key})
}

func TestTheSeedIsLoggedIfTheTestFails(t *testing.T) {
	shares := []fault.Share{{Fault: fault.Reset(), Probability: 0.5}}
	f := new(failing)
	t.Setenv(fault.Seed, "42")
	plan, same := fault.Randomly(f, shares...), fault.Seeded(42, shares...)
	for n := range 100 {
		require.Equal(t, same(fault.Attempt{Number: n}), plan(fault.Attempt{Number: n}))
	}
	f.end[0]()
	require.Empty(t, f.said)
	f.failed = true
	f.end[0]()
	require.Contains(t, f.said, "FAULT_SEED=42")
	t.Setenv(fault.Seed, "x")
	fault.Randomly(f)
	require.Contains(t, f.said, "invalid syntax")
}

func TestAFaultReadsAsItsCode(t *testing.T) {
	for want, f := range map[string]fault.Fault{
		"OK": fault.OK(), "Status(503)": fault.Status(503), "CutRequest(3)": fault.CutRequest(3), "Cut(0)": fault.Cut(-1),
		"Slow(1s).After(2)": fault.Slow(time.Second).After(2), "Trickle(1, 1s)": fault.Trickle(0, time.Second),
		"Hang": fault.Hang(), "OK.RetryAfter(-)": fault.OK().RetryAfter(-1),
	} {
		require.Equal(t, want, f.String())
	}
}

func TestMoreAttemptsThanAreKeptAreStillCounted(t *testing.T) {
	sent := new(fault.Injector)
	for range 1001 {
		require.NoError(t, sent.Op(func(context.Context) error { return nil })(t.Context()))
	}
	n, faults := sent.Counts()
	require.Equal(t, []int{1001, 0, 1000}, []int{n, faults, len(sent.Attempts())})
}
