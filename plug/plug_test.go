package plug_test

import (
	"errors"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
)

// The closures of the package's documentation. That they, and the types of this
// package, have the shapes of their clients, internal/lab/plugtest holds.

type schedule struct{ backoff.Policy }

func (s schedule) GetInterval(n int) time.Duration  { return plug.FromZero(s.Delay)(n) }
func (s schedule) GetMaxRetries() int               { return s.MaxAttempts - 1 }
func (s schedule) NextInterval(n int) time.Duration { return plug.FromZero(s.Delay)(n) }
func (s schedule) Calculate(n int) time.Duration    { return s.Delay(n) }

type stopping struct {
	run *backoff.Run
	err error
}

func (s stopping) Next() (time.Duration, bool) { wait, ok := s.run.Retry(s.err); return wait, !ok }

var (
	steps = backoff.Policy{
		MaxAttempts: 4,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: time.Second},
		Jitter:      backoff.NoJitter,
	}
	invalid = backoff.Policy{Schedule: backoff.Constant(-1)}
)

func TestClosuresOfTheDocumentationCountAsTheirClientsDo(t *testing.T) {
	p := steps
	fromOne := map[string]func(int) time.Duration{
		"franz-go, NATS, elasticsearch, sarama consumer, autopaho": p.Delay,
		"nsq":  schedule{p}.Calculate,
		"acme": func(n int) time.Duration { return acme(p)(n, nil, &http.Response{StatusCode: 503}) },
	}
	for name, delay := range fromOne {
		require.Equal(t, 100*time.Millisecond, delay(1), name)
		require.Equal(t, 200*time.Millisecond, delay(2), name)
	}
	sarama := func(n, _ int) time.Duration { return plug.FromZero(p.Delay)(n) }
	fromZero := map[string]func(int) time.Duration{
		"hcloud, go-redis dialer": plug.FromZero(p.Delay),
		"sarama metadata":         func(n int) time.Duration { return sarama(n, 3) },
		"gocql":                   schedule{p}.GetInterval,
		"heimdall":                schedule{p}.NextInterval,
	}
	for name, delay := range fromZero {
		require.Equal(t, 100*time.Millisecond, delay(0), name)
		require.Equal(t, 200*time.Millisecond, delay(1), name)
	}
	require.Zero(t, p.Delay(0), "autopaho asks for 0 before the first try")
	require.Equal(t, 3, schedule{p}.GetMaxRetries())
}

func acme(p backoff.Policy) func(int, *http.Request, *http.Response) time.Duration {
	return func(n int, _ *http.Request, resp *http.Response) time.Duration {
		return p.Decide(n, backoffhttp.Check(resp)).Wait
	}
}

func TestAcmeStopsAtTheLimitAndObeysRetryAfter(t *testing.T) {
	delay := acme(steps)
	require.Zero(t, delay(4, nil, &http.Response{StatusCode: 503}), "0 stops acme")
	require.Zero(t, delay(1, nil, &http.Response{StatusCode: 400}))
	hinted := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"7"}}}
	require.GreaterOrEqual(t, delay(1, nil, hinted), 7*time.Second)
}

func TestSethvargosBoolMeansStop(t *testing.T) {
	s := stopping{steps.Start(t.Context()), errors.New("down")}
	for range 3 {
		_, stop := s.Next()
		require.False(t, stop)
	}
	_, stop := s.Next()
	require.True(t, stop)
}

func TestFromZeroIsSafeForAnyNumber(t *testing.T) {
	seen := 0
	shifted := plug.FromZero(func(n int) time.Duration { seen = n; return 0 })
	for from, want := range map[int]int{0: 1, 1: 2, -1: 1, math.MinInt: 1, math.MaxInt: math.MaxInt} {
		shifted(from)
		require.Equal(t, want, seen, "%d", from)
	}
}

func FuzzAttemptNumbers(f *testing.F) {
	for _, n := range []int{0, 1, -1, 62, 63, 64, math.MaxInt, math.MinInt} {
		f.Add(n, uint64(max(0, n)), int64(time.Millisecond), int64(time.Second))
	}
	f.Fuzz(func(t *testing.T, n int, u uint64, initial, limit int64) {
		p := backoff.Policy{
			MaxAttempts: 3,
			Schedule:    backoff.Exponential{Initial: time.Duration(initial), Max: time.Duration(limit)},
			Jitter:      backoff.NoJitter,
		}
		if p.Validate() != nil {
			return
		}
		ceiling := max(p.Delay(math.MaxInt), 0)
		least := p.Delay(1)
		within := func(d time.Duration) {
			if d < least || d > ceiling {
				t.Fatalf("%v is not within %v and %v", d, least, ceiling)
			}
		}
		d, err := plug.AWS(p).RetryDelay(n, errTransient)
		if err != nil {
			t.Fatal(err)
		}
		within(d)
		within(plug.RetryableHTTP(p).Backoff(0, 0, n, nil))
		within(plug.RetryableHTTP(p).Backoff(0, 0, n, &http.Response{StatusCode: 503}))
		within(plug.GRPC(p).Backoff(t.Context(), uint(u)))
		within(plug.FromZero(p.Delay)(n))
		within(plug.DelayFunc(p)())
		within(plug.Workqueue[int](p).When(n))
	})
}

var errTransient = backoff.OfClass(errors.New("transient"), backoff.ClassRetryable)
