package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"resty.dev/v3"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// What a service takes per second, how many more at first, and how long all
// calls take at least.
const (
	limitPerSecond = 100
	limitBurst     = 100
	limitedCalls   = 1000
	idealTime      = (limitedCalls - limitBurst) * time.Second / limitPerSecond
)

// A getter makes a GET over a transport, with a library's defaults.
type getter func(base http.RoundTripper) func(url string) (*http.Response, error)

var getters = map[string]getter{
	ours: func(base http.RoundTripper) func(string) (*http.Response, error) {
		client := backoffhttp.Client(backoff.Policy{})
		client.Transport.(*backoffhttp.Transport).Base = base
		return client.Get
	},
	"go-retryablehttp": func(base http.RoundTripper) func(string) (*http.Response, error) {
		c := retryablehttp.NewClient()
		c.Logger, c.HTTPClient.Transport = nil, base
		return c.StandardClient().Get
	},
	"failsafe-go": func(base http.RoundTripper) func(string) (*http.Response, error) {
		policy := failsafehttp.NewRetryPolicyBuilder().Build()
		return (&http.Client{Transport: failsafehttp.NewRoundTripper(base, policy)}).Get
	},
	"cenkalti": func(base http.RoundTripper) func(string) (*http.Response, error) {
		client := &http.Client{Transport: base}
		return func(url string) (*http.Response, error) {
			return cenkalti.Retry(context.Background(), func() (*http.Response, error) {
				resp, err := checked(client.Get(url))
				if told, ok := errors.AsType[statusError](err); ok && told.after > 0 {
					err = cenkalti.RetryAfter(told.after, err)
				}
				return resp, err
			})
		}
	},
	"resty": func(base http.RoundTripper) func(string) (*http.Response, error) {
		c := resty.NewWithClient(&http.Client{Transport: base}).SetLogger(silence{}).
			SetRetryCount(3).AddRetryConditions(restyConditions...)
		return func(url string) (*http.Response, error) { return restyDo(c)(request(context.Background(), "GET", nil)) }
	},
	"avast": func(base http.RoundTripper) func(string) (*http.Response, error) {
		client := &http.Client{Transport: base}
		return func(url string) (resp *http.Response, err error) {
			err = retry.New(retry.DelayType(avastDelay)).Do(func() error { resp, err = checked(client.Get(url)); return err })
			return resp, err
		}
	},
}

// The Retry-After of a response is obeyed as in the examples of cenkalti and
// avast.
func avastDelay(n uint, err error, config retry.DelayContext) time.Duration {
	if told, ok := errors.AsType[statusError](err); ok && told.after > 0 {
		return told.after
	}
	return retry.CombineDelay(retry.BackOffDelay, retry.RandomDelay)(n, err, config)
}

type statusError struct {
	status string
	after  time.Duration
}

func (e statusError) Error() string { return "status " + e.status }

// checked makes an error of a status that is one.
func checked(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp.StatusCode < 400 {
		return resp, err
	}
	resp.Body.Close()
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return nil, statusError{resp.Status, time.Duration(seconds) * time.Second}
}

// limited is a service with a rate limit.
type limited struct {
	limiter       *rate.Limiter
	retryAfter    bool
	sent, refused atomic.Int64
}

func (l *limited) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.sent.Add(1)
	time.Sleep(5 * time.Millisecond) // or all clients would be in step
	if l.limiter.Allow() {
		return
	}
	l.refused.Add(1)
	if l.retryAfter {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(http.StatusTooManyRequests)
}

// A harvest is what became of the calls to a service with a rate limit.
type harvest struct {
	succeeded     int
	sent, refused int64
	took          time.Duration
}

func (h harvest) String() string {
	return fmt.Sprintf("%4d in %5.2f s, %4d of %4d refused", h.succeeded, h.took.Seconds(), h.refused, h.sent)
}

func (h harvest) share() float64 { return float64(h.refused) / float64(h.sent) }

// coarse is the same in every run: no number is near a bound.
func (h harvest) coarse() string {
	text := "under half"
	switch {
	case h.succeeded >= limitedCalls*95/100:
		text = "nearly all"
	case h.succeeded >= limitedCalls/2:
		text = "most"
	}
	switch share := h.share(); {
	case share < 0.25:
		return text + ", under a quarter refused"
	case share < 0.5:
		return text + ", under half refused"
	}
	return text + ", over half refused"
}

// harvest makes the calls.
func (l *limited) harvest(get func(string) (*http.Response, error), url string, workers int) harvest {
	var calls, succeeded atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range workers {
		all.Go(func() {
			for calls.Add(1) <= limitedCalls {
				resp, err := get(url)
				if err != nil {
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					succeeded.Add(1)
				}
			}
		})
	}
	all.Wait()
	return harvest{int(succeeded.Load()), l.sent.Load(), l.refused.Load(), time.Since(began)}
}

// A cell is a number of workers, and whether the service says when to come back.
type cell struct {
	workers    int
	retryAfter bool
}

var cells = []cell{{10, false}, {50, false}, {10, true}, {50, true}}

// Here over net.Pipe in virtual time. If the service refuses the last call twice,
// which is rare, the Retry-After makes the job a second longer.
func TestARateLimitFailsHardlyACall(t *testing.T) {
	for _, c := range cells {
		synctest.Test(t, func(t *testing.T) {
			mine, theirs := c.inMemory(getters[ours]), c.inMemory(getters["go-retryablehttp"])
			for try := 1; try < 3 && mine.took > most; try++ {
				mine = c.inMemory(getters[ours])
			}
			t.Logf("%+v: %v, go-retryablehttp %v", c, mine, theirs)
			c.requireAccepted(t, mine, theirs)
			require.LessOrEqual(t, theirs.took, most, "else the document is wrong")
		})
	}
}

const (
	enough = limitedCalls * 995 / 1000
	most   = idealTime * 115 / 100
)

// requireAccepted compares what this library got with what another one got. Of
// two clients of whose calls enough succeed the one is better of whose requests
// fewer are refused. Otherwise it is the one of whose calls more succeed.
func (c cell) requireAccepted(t *testing.T, mine, theirs harvest) {
	require.GreaterOrEqual(t, mine.succeeded, enough, "%+v", c)
	require.LessOrEqual(t, mine.took, most, "%+v", c)
	require.LessOrEqual(t, mine.share(), 0.18, "%+v", c)
	if theirs.succeeded >= enough {
		require.Less(t, mine.refused, theirs.refused, "%+v", c)
	}
}

// A row of the table says what holds in every run, and so no exact numbers.
func (c cell) row() row {
	name, says := fmt.Sprintf("rate-limit-%d", c.workers), "without a Retry-After"
	if c.retryAfter {
		name, says = name+"-retry-after", "with Retry-After: 1"
	}
	answers := map[string]observation{}
	for library, g := range getters {
		answers[library] = virtual(func(*testing.T) string { return c.inMemory(g).coarse() })
	}
	return row{name, fmt.Sprintf("%d workers make 1000 GETs, and the service says 429 %s: calls that succeed, and requests refused", c.workers, says),
		answers, "TestA429SlowsTheCallsToAHostInsteadOfFailingThem"}
}

var rateLimits = table{
	name:      "rate limits",
	libraries: []string{ours, "go-retryablehttp", "failsafe-go", "cenkalti", "avast", "resty"},
	rows:      []row{cells[0].row(), cells[1].row(), cells[2].row(), cells[3].row()},
}

// inMemory serves over pipes.
func (c cell) inMemory(g getter) harvest {
	pipes := make(pipes)
	l := &limited{limiter: rate.NewLimiter(limitPerSecond, limitBurst), retryAfter: c.retryAfter}
	server := &http.Server{Handler: l}
	go server.Serve(pipes)
	defer server.Close()
	base := &http.Transport{DialContext: pipes.dial, MaxIdleConnsPerHost: c.workers}
	defer base.CloseIdleConnections()
	return l.harvest(g(base), "http://service.test", c.workers)
}

// pipes is a listener in memory.
type pipes chan net.Conn

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p <- far
	return near, nil
}

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
