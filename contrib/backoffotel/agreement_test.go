package backoffotel_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/contrib/backoffotel"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/poll"
)

// Whatever a program does, its logs and its metrics tell of the same calls, each
// once, and of those that were made.
func TestLogsAndMetricsAgree(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) { requireAgreement(t, seed) })
	}
}

func requireAgreement(t *testing.T, seed uint64) {
	mp, reader := metering()
	logged := recordCounts{counts: make(map[string]int)}
	observer := backoff.JoinObservers(backoffotel.Metrics(mp), backoffslog.New(slog.New(&logged), nil))
	traffic := newTraffic(observer, rand.New(rand.NewPCG(seed, 1)))
	var all sync.WaitGroup
	for name, call := range traffic.calls {
		for range 3 {
			all.Go(func() {
				for range 200 {
					traffic.count(name, call())
					time.Sleep(time.Duration(traffic.random() * 2e8))
				}
			})
		}
	}
	all.Wait()
	time.Sleep(time.Minute) // for the ends of bursts in the log
	synctest.Wait()

	_, counts := collect(t, reader)
	for name := range traffic.calls {
		counted := func(metric, attribute string) (n int) {
			for s, count := range counts {
				if strings.HasPrefix(s.name, metric+" ") && strings.Contains(s.attributes+",", "backoff.operation="+name+",") && strings.Contains(s.attributes, attribute) {
					n += int(count)
				}
			}
			return n
		}
		succeeded := counted("backoff.call.attempts", "outcome=first") + counted("backoff.call.attempts", "outcome=retried")
		failed := counted("backoff.call.attempts", "outcome=failed")
		require.Equal(t, logged.counts[name+" success"], succeeded, name)
		require.Equal(t, logged.counts[name+" give up"], failed, name)
		require.Equal(t, logged.counts[name+" retry"], counted("backoff.retry.wait", ""), name)
		require.Positive(t, failed, name)
		switch name {
		case "guarded": // by a breaker, whose refusals are failed calls of the policy
			require.Positive(t, logged.counts[name+" refused"])
		case "job": // each check that succeeds is a call
			continue
		}
		require.Equal(t, traffic.succeeded[name], succeeded, name)
		require.Equal(t, traffic.failed[name], failed, name)
	}
}

// recordCounts is a handler that counts records by operation and message, also
// those that were left out.
type recordCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *recordCounts) Enabled(context.Context, slog.Level) bool { return true }
func (c *recordCounts) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *recordCounts) WithGroup(string) slog.Handler            { return c }

func (c *recordCounts) Handle(_ context.Context, r slog.Record) error {
	operation, message, n := "", r.Message, 1
	if message == "suppressed" {
		n = 0
	}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "operation":
			operation = a.Value.String()
		case "event":
			message = a.Value.String()
		case "suppressed":
			n += int(a.Value.Uint64())
		}
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[operation+" "+message] += n
	return nil
}

// traffic is calls of all kinds to a service that is ill for a part of the time.
type traffic struct {
	calls map[string]func() error

	mu                sync.Mutex
	draw              *rand.Rand
	succeeded, failed map[string]int
}

func (f *traffic) random() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draw.Float64()
}

func (f *traffic) count(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.succeeded[name]++
	} else {
		f.failed[name]++
	}
}

// attempt is an attempt at the service.
func (f *traffic) attempt(ctx context.Context) error {
	time.Sleep(time.Duration(f.random() * 2e8))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ill := time.Now().Second()%20 < 8; ill && f.random() < 0.8 || f.random() < 0.05 {
		return errBoom
	}
	return nil
}

func newTraffic(observer backoff.Observer, draw *rand.Rand) *traffic {
	f := &traffic{draw: draw, succeeded: make(map[string]int), failed: make(map[string]int)}
	policy := func(name string) backoff.Policy {
		return backoff.Policy{Name: name, Observer: observer, Schedule: backoff.Exponential{Initial: 20 * time.Millisecond}}
	}
	breaker := func(name string) *backoff.Breaker {
		return &backoff.Breaker{Name: name, Observer: observer, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Second)}
	}
	front, inside := breaker("guarded"), breaker("waiting")
	guarded, waiting, halves, job := policy("guarded"), policy("waiting"), policy("halves"), policy("job")
	guarded.Budget = new(backoff.RetryBudget)
	behind := backoff.Stack(front, guarded)
	waiting.MaxElapsed = 2 * time.Second
	job.MaxElapsed = time.Second
	hedged := &hedge.Hedge{Name: "hedged", Observer: observer, Delay: 100 * time.Millisecond}
	client := &http.Client{Transport: &backoffhttp.Transport{Policy: policy("web"), Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		if err := f.attempt(r.Context()); err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: 200, Request: r, Header: http.Header{}, Body: http.NoBody}, nil
	})}}
	f.calls = map[string]func() error{
		"guarded": func() error {
			return behind.Do(context.Background(), f.attempt)
		},
		"waiting": func() error {
			return waiting.Do(context.Background(), func(ctx context.Context) error {
				err := inside.Do(ctx, f.attempt)
				if errors.Is(err, backoff.ErrOpen) {
					err = backoff.OfClass(err, backoff.ClassRetryable)
				}
				return err
			})
		},
		"hedged": func() error {
			_, err := hedge.Value(context.Background(), hedged, func(ctx context.Context) (any, error) { return nil, f.attempt(ctx) }, nil)
			return err
		},
		"web": func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(f.random()*2e9))
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, "GET", []string{"http://a.test", "http://b.test"}[int(2*f.random())], http.NoBody)
			if err != nil {
				return err
			}
			response, err := client.Do(r)
			if err != nil {
				return err
			}
			return response.Body.Close()
		},
		"halves": func() error {
			half, run := 0, halves.Start(context.Background())
			for ctx := range run.Attempts() {
				if err := f.attempt(ctx); err != nil {
					run.Fail(err)
					continue
				}
				if half++; half == 2 {
					break
				}
				run.Progress()
				run.Fail(io.ErrUnexpectedEOF)
			}
			return run.Err()
		},
		"job": func() error {
			return poll.Until(context.Background(), job, func(ctx context.Context) (bool, error) { return f.random() < 0.3, f.attempt(ctx) })
		},
	}
	return f
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
