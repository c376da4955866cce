package backoffhttp_test

// Published bugs of the two libraries that do the same, which this one must not
// have. Numbers are those of issues and pull requests of
// hashicorp/go-retryablehttp and failsafe-go/failsafe-go.

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// Docker Hub made a client wait 484,289 hours, with a maximum of 30 s.
func TestRetryablehttp247RetryAfterIsBounded(t *testing.T) {
	for _, after := range []string{"1743440400", "18446744074", "9223372037", "9223372036854775808", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(answer(429, "Retry-After", after))
			began := time.Now()
			resp := roundTrip(t, &backoffhttp.Transport{Base: w}, newRequest(t, "GET", "http://a.test/", nil))
			require.Zero(t, time.Since(began), "neither waited for nor, having overflowed, retried at once")
			require.Equal(t, 1, w.requests())
			require.Equal(t, 429, resp.StatusCode)
		})
	}
}

// Sleeps into a deadline that must expire.
func TestRetryablehttp272NoSleepIntoADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := within(t, 10*time.Second)
		w := newWire(answer(503, "Retry-After", "60"))
		began := time.Now()
		resp := roundTrip(t, &backoffhttp.Transport{Base: w}, newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
		require.Zero(t, time.Since(began))
		require.Equal(t, 503, resp.StatusCode)
	})
}

// An error instead of the last response, "by design"; the work-around leaks
// bodies.
func TestRetryablehttp46TheLastResponseIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answerBody(500, `{"message":"why"}`))
		client := &http.Client{Transport: over(w)}
		resp, err := client.Get("http://a.test/")
		require.NoError(t, err)
		require.Equal(t, `{"message":"why"}`, text(t, resp))
		require.Zero(t, w.open())
	})
}

// POST is retried by default.
func TestRetryablehttpAndFailsafePOSTIsNotRetried(t *testing.T) {
	for _, method := range []string{"POST", "PATCH"} {
		w := newWire(answer(503))
		roundTrip(t, over(w), newRequest(t, method, "http://a.test/", strings.NewReader("charge")))
		require.Equal(t, 1, w.requests())
	}
}

// Logs to stderr unless silenced. 0.7.7: and credentials with them.
func TestRetryablehttp31And211NothingIsLogged(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	stderr := os.Stderr
	r, w, err := os.Pipe()
	require.NoError(t, err)
	os.Stderr = w
	t.Cleanup(func() { log.SetOutput(stderr); os.Stderr = stderr })
	synctest.Test(t, func(t *testing.T) {
		base := newWire(answer(503), failure(syscall.ECONNRESET), answer(200))
		roundTrip(t, over(base), newRequest(t, "GET", "http://user:password@a.test/", nil))
	})
	w.Close()
	written, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Empty(t, logged.String())
	require.Empty(t, string(written))
}

// 50 GETs of 4 attempts each against a server that is down left 453 goroutines,
// as bodies stayed open.
func TestFailsafeBodiesOfRetriedResponsesAreClosed(t *testing.T) {
	s := serve(t, status(503))
	base := &http.Transport{MaxIdleConnsPerHost: 50}
	tr := &backoffhttp.Unguarded{Base: base, Policy: atOnce()}
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			resp, err := tr.RoundTrip(newRequest(t, "GET", s.URL, nil))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	all.Wait()
	require.EqualValues(t, 200, s.requests.Load())
	tr.CloseIdleConnections()
	s.CloseClientConnections()
	for range 500 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines more than before", runtime.NumGoroutine()-before)
}

// One goroutine per request until a parent of its context ended.
func TestFailsafeNoGoroutinePerRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type key struct{}
	tr := &backoffhttp.Transport{Base: newWire(answer(200))}
	tr.Policy.AttemptTimeout = time.Hour
	before := runtime.NumGoroutine()
	var open []*http.Response
	for range 100 {
		req := newRequest(t, "GET", "http://a.test/", nil).WithContext(context.WithValue(ctx, key{}, 1))
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		open = append(open, resp)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before, "also while bodies are open")
	for _, resp := range open {
		resp.Body.Close()
	}
}

// Values of the request's context were lost. The observer gets them, too.
func TestFailsafe122ContextValuesReachTheBase(t *testing.T) {
	type key struct{}
	for _, timeout := range []time.Duration{0, time.Minute} {
		tr := over(step(func(req *http.Request) (*http.Response, error) {
			require.Equal(t, "value", req.Context().Value(key{}))
			return answer(200)(req)
		}))
		tr.Policy.AttemptTimeout = timeout
		tr.Policy.Observer = func(ctx context.Context, _ backoff.Event) { require.Equal(t, "value", ctx.Value(key{})) }
		ctx := context.WithValue(t.Context(), key{}, "value")
		roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
	}
}
