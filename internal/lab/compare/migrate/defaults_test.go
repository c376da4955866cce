package migrate

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	avast4 "github.com/avast/retry-go/v4"
	avast5 "github.com/avast/retry-go/v5"
	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti5 "github.com/cenkalti/backoff/v5"
	cenkalti6 "github.com/cenkalti/backoff/v6"
	cenkalti7 "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
)

var update = flag.Bool("update", false, "write the tables into "+document)

// Each library with nothing set. sethvargo's has no default: a schedule must be
// given.
var defaults = []struct {
	name string
	run  call
}{
	{"backoff", backoff.Policy{}.Do},
	{"cenkalti v4", func(ctx context.Context, op operation) error {
		return cenkalti4.Retry(func() error { return op(ctx) }, cenkalti4.WithContext(cenkalti4.NewExponentialBackOff(), ctx))
	}},
	{"cenkalti v5", func(ctx context.Context, op operation) error {
		_, err := cenkalti5.Retry(ctx, func() (int, error) { return 0, op(ctx) })
		return err
	}},
	{"cenkalti v6", func(ctx context.Context, op operation) error {
		_, err := cenkalti6.Retry(ctx, func() (int, error) { return 0, op(ctx) })
		return err
	}},
	{"cenkalti v7", func(ctx context.Context, op operation) error {
		_, err := cenkalti7.Retry(ctx, func() (int, error) { return 0, op(ctx) })
		return err
	}},
	{"avast v4", func(ctx context.Context, op operation) error {
		return avast4.Do(func() error { return op(ctx) }, avast4.Context(ctx))
	}},
	{"avast v5", func(ctx context.Context, op operation) error {
		return avast5.New(avast5.Context(ctx)).Do(func() error { return op(ctx) })
	}},
	{"failsafe-go", func(ctx context.Context, op operation) error {
		return failsafe.With(retrypolicy.NewWithDefaults[any]()).WithContext(ctx).Run(func() error { return op(ctx) })
	}},
	{"failsafehttp", overHTTP(func(base http.RoundTripper) http.RoundTripper {
		return failsafehttp.NewRoundTripper(base, failsafehttp.NewRetryPolicyBuilder().Build())
	})},
	{"go-retryablehttp", overHTTP(func(base http.RoundTripper) http.RoundTripper {
		c := retryablehttp.NewClient()
		c.Logger = nil
		c.HTTPClient.Transport = base
		return &retryablehttp.RoundTripper{Client: c}
	})},
	{"backoffhttp, without its budget", overHTTP(func(base http.RoundTripper) http.RoundTripper {
		return &backoffhttp.Unguarded{Base: base}
	})},
}

func overHTTP(make func(http.RoundTripper) http.RoundTripper) call {
	return func(ctx context.Context, op operation) error {
		base := attempt(func() { _ = op(ctx) })
		req, err := http.NewRequestWithContext(ctx, "GET", "http://service.test/", nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: make(base)}).Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
}

// attempt is a transport whose service always answers 503.
type attempt func()

func (a attempt) RoundTrip(req *http.Request) (*http.Response, error) {
	a()
	return &http.Response{StatusCode: 503, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

func TestDefaults(t *testing.T) {
	lines := []string{"| Library | Attempts | Wait before the first retry | A call that always fails ends after |", "|---|---|---|---|"}
	for _, d := range defaults {
		lines = append(lines, "| "+d.name+" | "+observed(t, d.run)+" |")
	}
	docpagetest.Table(t, document, "defaults", lines, *update)
}

// observed makes 1000 calls, and tells the range of what it saw.
func observed(t *testing.T, run call) string {
	const calls = 1000
	attempts, waits, times := span{}, span{}, span{}
	synctest.Test(t, func(t *testing.T) {
		for range calls {
			began := time.Now()
			var at []time.Duration
			_ = run(t.Context(), func(context.Context) error {
				at = append(at, time.Since(began))
				return errDown
			})
			attempts.add(float64(len(at)))
			waits.add((at[1] - at[0]).Seconds())
			times.add(at[len(at)-1].Seconds())
		}
	})
	count := fmt.Sprint(attempts.least)
	if attempts.least != attempts.most {
		count = "no limit"
	}
	return fmt.Sprintf("%s | %s | %s", count, waits.text(), atMost(times.most))
}

type span struct {
	least, most float64
	n           int
}

func (s *span) add(x float64) {
	if s.n == 0 {
		s.least, s.most = x, x
	}
	s.least, s.most, s.n = min(s.least, x), max(s.most, x), s.n+1
}

// text rounds to 10 ms.
func (s *span) text() string {
	from, to := fmt.Sprintf("%.2f", s.least), fmt.Sprintf("%.2f", s.most)
	if from == to {
		return from + " s"
	}
	return from + " to " + to + " s"
}

// atMost names the next round time.
func atMost(seconds float64) string {
	for _, round := range []float64{0, 0.7, 15, 52, 900} {
		if seconds <= round {
			return strings.Replace(fmt.Sprintf("at most %v s", round), "900 s", "15 min", 1)
		}
	}
	return fmt.Sprint(seconds)
}
