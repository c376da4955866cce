package compare

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"resty.dev/v3"

	"github.com/gobackoff/backoff/hedge"
)

var hedges = table{
	name:      "hedges",
	libraries: []string{ours, "failsafe-go", "resty"},
	rows: []row{
		{"hedge-fails", "the first attempt succeeds after 5 s, a hedge sent after 1 s fails at once: the call ends with",
			with(each(hedgers, resultBesideAFailingHedge), map[string]observation{
				"failsafe-go": also(resultBesideAFailingHedge, failsafeHedger, failsafeSuccessHedger, "CancelIf"),
			}), "TestHedgeFailureDoesNotBeatAGoodFirstAttempt"},
		{"losers", "in 20 calls the loser returns too late something that must be closed: opened, and passed on to be closed",
			each(hedgers, closedLosers), "TestHedgeDiscardsEachLosingValueOnce"},
		{"hedge-panics", "a hedge panics while the first attempt is slow",
			map[string]observation{ours: child("hedge of "+ours, panicInAHedge(oursHedger)),
				"failsafe-go": child("hedge of failsafe-go", panicInAHedge(failsafeHedger)),
				"resty":       child("hedge of resty", panicInAHedge(restyHedger))}, "TestHedgeCarriesPanicsToTheCaller"},
	},
}

// A hedger sends a hedge after a second. discard may be nil.
type hedger func(ctx context.Context, op func(context.Context) (int, error), discard func(int)) (int, error)

var hedgers = map[string]hedger{ours: oursHedger, "failsafe-go": failsafeHedger, "resty": restyHedger}

func oursHedger(ctx context.Context, op func(context.Context) (int, error), discard func(int)) (int, error) {
	return hedge.Value(ctx, &hedge.Hedge{Delay: time.Second, MaxExtraLoad: -1}, op, discard)
}

// failsafe-go's has nowhere to give the results of losers to.
func failsafeHedger(ctx context.Context, op func(context.Context) (int, error), _ func(int)) (int, error) {
	executor := failsafe.With(hedgepolicy.NewBuilderWithDelay[int](time.Second).Build()).WithContext(ctx)
	return executor.GetWithExecution(func(exec failsafe.Execution[int]) (int, error) { return op(exec.Context()) })
}

func failsafeSuccessHedger(ctx context.Context, op func(context.Context) (int, error), _ func(int)) (int, error) {
	policy := hedgepolicy.NewBuilderWithDelay[int](time.Second).CancelIf(func(_ int, err error) bool { return err == nil }).Build()
	return failsafe.With(policy).WithContext(ctx).GetWithExecution(func(exec failsafe.Execution[int]) (int, error) { return op(exec.Context()) })
}

// resty's is a transport. It closes the bodies of losers.
func restyHedger(ctx context.Context, op func(context.Context) (int, error), discard func(int)) (int, error) {
	h := resty.NewHedging().SetDelay(time.Second).SetMaxRequest(2).SetMaxRequestPerSecond(0)
	h.SetTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
		n, err := op(req.Context())
		if err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: n, Body: closable{Reader: strings.NewReader(""), close: func() { discard(n) }}}, nil
	}))
	resp, err := h.RoundTrip(request(ctx, "GET", nil))
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil // the caller closes the body of the winner
}

type closable struct {
	io.Reader
	close func()
}

func (c closable) Close() error { c.close(); return nil }

func resultBesideAFailingHedge(t *testing.T, hedge hedger) string {
	var calls atomic.Int32
	_, err := hedge(t.Context(), func(ctx context.Context) (int, error) {
		if calls.Add(1) > 1 {
			return 0, errDown
		}
		select {
		case <-time.After(5 * time.Second):
			return 1, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}, nil)
	return resultText(err)
}

func closedLosers(t *testing.T, hedge hedger) string {
	var openedAll, closed atomic.Int32
	for range 20 {
		var calls atomic.Int32
		_, _ = hedge(t.Context(), func(context.Context) (int, error) {
			n := calls.Add(1)
			time.Sleep(time.Duration(3*n) * time.Second) // the hedge, begun 1 s later, ends later
			openedAll.Add(1)
			return int(n), nil
		}, func(int) { closed.Add(1) })
		closed.Add(1) // the winner, by the caller
	}
	time.Sleep(time.Minute)
	return fmt.Sprintf("%d, %d", openedAll.Load(), closed.Load())
}

func panicInAHedge(hedge hedger) func() string {
	return func() string {
		seen := panicking(func() {
			var calls atomic.Int32
			_, _ = hedge(context.Background(), func(ctx context.Context) (int, error) {
				if calls.Add(1) > 1 {
					panic("in the hedge")
				}
				<-ctx.Done()
				return 0, ctx.Err()
			}, nil)
		})
		if seen == "panics" {
			return "panics in the caller, where recover works"
		}
		return seen
	}
}
