package hedge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// One replica is slow today; after the delay the call goes to the next one as
// well. The zero Hedge would measure the delay.
func ExampleValue() {
	replicas := []string{"a", "b"}
	lookup := hedge.Hedge{Name: "lookup", Delay: 5 * time.Millisecond}

	answer, err := hedge.Value(context.Background(), &lookup, func(ctx context.Context) (string, error) {
		replica := replicas[hedge.Number(ctx)%len(replicas)]
		if replica == "a" {
			<-ctx.Done() // slow, but it returns when its context ends
			return "", context.Cause(ctx)
		}
		return "answer of " + replica, nil
	}, nil)
	fmt.Println(answer, err)
	fmt.Println("hedges:", lookup.Stats().Hedges)
	// Output:
	// answer of b <nil>
	// hedges: 1
}

// A value that holds something open needs a discard, for the attempts whose
// value nobody wants any more. For an *http.Response it closes the Body.
func ExampleValue_discard() {
	open := hedge.Hedge{Delay: time.Millisecond}
	var closed sync.WaitGroup
	closed.Add(1)

	r, err := hedge.Value(context.Background(), &open, func(ctx context.Context) (io.ReadCloser, error) {
		if hedge.Number(ctx) == 0 {
			<-ctx.Done() // too late, and yet it succeeds
		}
		return io.NopCloser(strings.NewReader("contents")), nil
	}, func(r io.ReadCloser) {
		r.Close()
		closed.Done()
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	contents, err := io.ReadAll(r)
	fmt.Println(string(contents), err)
	closed.Wait()
	// Output:
	// contents <nil>
}

// gRPC's hedgingPolicy {maxAttempts: 3, hedgingDelay: 0.5s,
// nonFatalStatusCodes: [UNAVAILABLE, UNKNOWN]}. With google.golang.org/grpc,
// rpcCode is status.Code.
func ExampleHedge_grpc() {
	h := &hedge.Hedge{
		MaxAttempts:  3,
		Delay:        500 * time.Millisecond,
		MaxExtraLoad: -1, // gRPC bounds it by retryThrottling only, which is a Budget
		Classify: backoff.RetryIf(func(err error) bool {
			code := rpcCode(err)
			return code == "UNAVAILABLE" || code == "UNKNOWN"
		}),
	}
	var attempts atomic.Int32
	_, err := hedge.Value(context.Background(), h, func(context.Context) (int, error) {
		attempts.Add(1)
		return 0, rpcError("UNAVAILABLE")
	}, nil)
	fmt.Println(attempts.Load(), rpcCode(err))

	_, err = hedge.Value(context.Background(), h, func(context.Context) (int, error) {
		return 0, rpcError("NOT_FOUND")
	}, nil)
	fmt.Println(err)
	// Output:
	// 3 UNAVAILABLE
	// NOT_FOUND
}

func ExampleStats() {
	hedged := new(hedge.Hedge)
	for range 100 {
		_, _ = hedge.Value(context.Background(), hedged, func(context.Context) (int, error) { return 1, nil }, nil)
	}
	stats := hedged.Stats()
	fmt.Printf("%d calls, extra load %.0f %%\n", stats.Calls, 100*float64(stats.Hedges)/float64(stats.Calls))
	// Output: 100 calls, extra load 0 %
}

type rpcError string

func (e rpcError) Error() string { return string(e) }

func rpcCode(err error) string {
	var status rpcError
	if errors.As(err, &status) {
		return string(status)
	}
	return "OK"
}
