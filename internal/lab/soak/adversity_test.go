package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/limit"
)

// Beside one of so many calls there is one that goes wrong on purpose.
const everyAdverse = 4

// ways is the number of ways to go wrong.
const ways = 12

// adversity makes calls that go wrong in the ways that are not the network's:
// careless programs, hostile errors, hints and keys, clients that go away. All
// of them share a budget with places and one with books, which must be balanced
// at the end.
type adversity struct {
	life      context.Context // outlives all calls
	end       context.CancelFunc
	policy    backoff.Policy
	breaker   backoff.Breaker
	hedge     hedge.Hedge
	places    limit.Concurrency
	books     books
	services  guard.Services
	server    *httptest.Server // sends bodies that never end
	transport *meter
	client    *http.Client
	inbound   http.Handler

	calls        [ways]atomic.Int64
	made, closed atomic.Int64 // values of hedged calls
}

// books is a budget that counts what it granted and what it got back.
type books struct {
	backoff.BudgetDefaults

	granted, settled atomic.Int64
}

func (b *books) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.granted.Add(1)
	return backoff.Ticket{}, 0, true
}

func (b *books) Done(backoff.Ticket, backoff.Result) { b.settled.Add(1) }

func newAdversity() *adversity {
	a := new(adversity)
	a.life, a.end = context.WithCancel(context.Background())
	a.places.Max = 2 * workers
	a.policy = backoff.Policy{
		MaxAttempts: 3, Schedule: backoff.Constant(100 * time.Microsecond), MaxRetryAfter: time.Millisecond,
		Budget: backoff.JoinBudgets(&a.places, &a.books, &backoff.RetryBudget{Window: 100 * time.Millisecond}),
	}
	a.breaker = backoff.Breaker{OpenFor: backoff.Constant(time.Millisecond), ProbeTimeout: time.Millisecond, MaxProbes: -1, MaxRetryAfter: time.Millisecond}
	a.hedge = hedge.Hedge{Delay: -1, MaxExtraLoad: -1, MaxAttempts: 3, Budget: a.policy.Budget}
	a.services.MaxKeys = 64
	a.services.New = func(string) *guard.Service {
		return &guard.Service{Budget: backoff.JoinBudgets(&a.places, &a.books, &backoff.RetryBudget{})}
	}
	a.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, receipt(0))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	a.transport = &meter{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * workers}}
	a.client = &http.Client{Transport: &backoffhttp.Transport{Base: a.transport, Policy: a.policy}}
	a.inbound = backoffhttp.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = a.policy.Do(r.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	}))
	for n := range 2000 { // so that pools, maps and windows are as large as they get
		if adverse[n%len(adverse)].fast {
			a.make(n)
		}
	}
	return a
}

// adverse are the ways to go wrong.
var adverse = [ways]struct {
	name string
	fast bool
	call func(a *adversity, n int)
}{
	{"panics", true, func(a *adversity, n int) { _ = a.do(n, func(context.Context) error { panic(n) }) }},
	{"goexits", true, func(a *adversity, n int) { _ = a.do(n, func(context.Context) error { runtime.Goexit(); return nil }) }},
	{"classifiers that panic", true, func(a *adversity, n int) {
		p := a.policy
		p.Classify = func(error) backoff.Class { panic(n) }
		_ = p.Do(a.life, func(context.Context) error { return errAdverse })
	}},
	{"loops left", true, func(a *adversity, n int) {
		run := a.policy.Start(a.life)
		for range run.Attempts() {
			run.Fail(errAdverse)
			switch n % 3 {
			case 0:
				return
			case 1:
				panic(n)
			}
		}
	}},
	{"joined errors", true, func(a *adversity, n int) { _ = a.do(n, func(context.Context) error { return joined(n) }) }},
	{"cyclic errors", false, func(a *adversity, n int) {
		if n%50 == 0 { // each is read up to its limit of 10,000 errors, several times
			_ = a.do(n, func(context.Context) error { return errors.Join(errAdverse, new(cycle)) })
		}
	}},
	{"hints", true, func(a *adversity, n int) {
		hint := [...]time.Duration{math.MinInt64, -1, 0, 1, time.Microsecond, time.Millisecond, time.Hour, math.MaxInt64}[n/ways%8]
		_ = a.do(n, func(context.Context) error {
			return backoff.RetryAfter(backoff.Pushback(errAdverse, hint), hint/2)
		})
	}},
	{"keys of others", true, func(a *adversity, n int) {
		p := a.policy
		p.Budget = nil // that of the key
		_ = a.services.For("other "+strconv.Itoa(n)).Do(a.life, p, func(context.Context) error { return errAdverse })
	}},
	{"deadlines from outside", false, func(a *adversity, n int) {
		r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(a.life)
		r.Header.Set("Backoff-Deadline-Ms", strconv.Itoa(1+n%2))
		a.inbound.ServeHTTP(httptest.NewRecorder(), r)
	}},
	{"cancelled waits", false, func(a *adversity, n int) {
		ctx, cancel := context.WithTimeout(a.life, time.Duration(n%200)*time.Microsecond)
		defer cancel()
		_ = a.policy.Do(ctx, func(context.Context) error { return backoff.Pushback(errAdverse, time.Millisecond) })
	}},
	{"cancelled bodies", false, (*adversity).cancelBody},
	{"hedges", true, (*adversity).race},
}

var errAdverse = errors.New("adverse")

// beside makes an adverse call beside one of every few calls.
func (a *adversity) beside(call int) {
	if call%everyAdverse == 0 {
		a.make(call / everyAdverse)
	}
}

// make makes an adverse call on a goroutine of its own, which the call may
// leave.
func (a *adversity) make(n int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		which := n % len(adverse)
		a.calls[which].Add(1)
		adverse[which].call(a, n)
	}()
	<-done
}

// do makes a call through the breaker and the policy.
func (a *adversity) do(n int, op func(context.Context) error) error {
	if n%7 == 0 {
		_, _ = a.breaker.Allow() // and Done never comes
	}
	return a.breaker.Do(a.life, func(ctx context.Context) error { return a.policy.Do(ctx, op) })
}

// joined is a tree of some hundred errors.
func joined(n int) error {
	err := error(backoff.RetryAfter(errAdverse, 1))
	for i := range 50 {
		err = errors.Join(fmt.Errorf("layer %d: %w", i, err), &backoff.Error{Last: errAdverse, Reason: backoff.Reason(n % 12)})
	}
	return backoff.OfClass(err, backoff.Class(n%6))
}

// cycle is an error that wraps itself.
type cycle struct{ _ byte }

func (*cycle) Error() string     { return "cycle" }
func (c *cycle) Unwrap() []error { return []error{c, errAdverse, c} }

// cancelBody stops to read an answer that has no end.
func (a *adversity) cancelBody(n int) {
	ctx, cancel := context.WithCancel(a.life)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server.URL, nil)
	if err != nil {
		return
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if n%2 == 0 {
		cancel()
	}
	_, _ = io.ReadFull(resp.Body, make([]byte, 10))
}

// race makes a hedged call whose attempts win, fail, panic and leave. Its
// context ends when its value is closed.
func (a *adversity) race(n int) {
	ctx, cancel := context.WithCancel(a.life)
	defer cancel()
	_, err := hedge.Value(ctx, &a.hedge, func(ctx context.Context) (int, error) {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Duration(n%5) * 10 * time.Microsecond):
		}
		switch (n/ways + hedge.Number(ctx)) % 5 {
		case 0:
			return 0, errAdverse
		case 1:
			panic(n)
		case 2:
			runtime.Goexit()
		}
		a.made.Add(1)
		return n, nil
	}, func(int) { a.closed.Add(1) })
	if err == nil {
		a.closed.Add(1)
	}
}

// isBalanced checks that nothing is held once the calls are over. The losers of
// hedged calls may end after them.
func (a *adversity) isBalanced(t *testing.T) {
	a.transport.CloseIdleConnections()
	balanced := func() bool {
		return a.places.Load() == 0 && a.books.granted.Load() == a.books.settled.Load() &&
			a.made.Load() == a.closed.Load() && a.transport.opened.Load() == a.transport.closed.Load()
	}
	for deadline := time.Now().Add(10 * time.Second); !balanced() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	require.Zero(t, a.places.Load(), "places that are still held")
	require.Equal(t, a.books.granted.Load(), a.books.settled.Load(), "tickets granted and given back")
	require.Equal(t, a.made.Load(), a.closed.Load(), "values made, and returned or discarded")
	require.Equal(t, a.transport.opened.Load(), a.transport.closed.Load(), "bodies opened and closed")
}

func (a *adversity) report(t *testing.T) {
	for i := range adverse {
		n := a.calls[i].Load()
		require.Positive(t, n, adverse[i].name)
		t.Logf("%d %s", n, adverse[i].name)
	}
	t.Logf("%d tickets, %d values of hedged calls, %d bodies", a.books.granted.Load(), a.made.Load(), a.transport.opened.Load())
	require.Positive(t, a.made.Load())
}

func (a *adversity) close() {
	a.end()
	a.transport.CloseIdleConnections()
	a.server.Close()
}
