package backofftest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/force"
	"github.com/gobackoff/backoff/poll"
)

// A world is what the programs of these tests work on.
type world struct {
	t       *testing.T
	orders  atomic.Int64
	server  string // that stores orders
	second  string // another host
	client  *http.Client
	keys    atomic.Int64
	closing context.Context
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, closing: t.Context()}
	store := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost && len(body) != 5 {
			http.Error(rw, "want five bytes", http.StatusBadRequest)
			return
		}
		w.orders.Add(1)
		_, _ = rw.Write(bytes.Repeat([]byte("x"), 100))
	})
	a, b := httptest.NewServer(store), httptest.NewServer(store)
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	w.server, w.second, w.client = a.URL, b.URL, http.DefaultClient
	return w
}

// request makes an order, or reads one if body is nil.
func (w *world) request(ctx context.Context, body io.Reader) *http.Request {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, w.server, body)
	require.NoError(w.t, err)
	return r
}

// send sends a request, and closes the response.
func (w *world) send(r *http.Request) error {
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return backoffhttp.Check(resp)
}

// recorder is a test that must fail.
type recorder struct {
	testing.TB

	failures []string
}

func (r *recorder) Error(args ...any) { r.failures = append(r.failures, fmt.Sprint(args...)) }

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// marked returns the line of this file with a mark.
func marked(t *testing.T, mark string) string {
	_, file, _, _ := runtime.Caller(0)
	source, err := os.ReadFile("force_test.go")
	require.NoError(t, err)
	for n, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// "+mark) {
			return fmt.Sprintf("%s:%d: ", file, n+1)
		}
	}
	t.Fatalf("no line is marked %q", mark)
	return ""
}

var policy = backoff.Policy{}

// wrong are programs with a mistake each, by what is found at the line that is marked.
var wrong = map[string]func(w *world, ctx context.Context) error{
	"body: the reader is not rewound": func(w *world, ctx context.Context) error {
		body := strings.NewReader("hello")
		return policy.Do(ctx, func(ctx context.Context) error { // body: the reader is not rewound
			return w.send(w.request(ctx, io.MultiReader(body)))
		})
	},
	"body: what one attempt wrote is sent by the next": func(w *world, ctx context.Context) error {
		var b bytes.Buffer
		return policy.Do(ctx, func(ctx context.Context) error { // body: what one attempt wrote is sent by the next
			b.WriteString("hello")
			return w.send(w.request(ctx, bytes.NewReader(b.Bytes())))
		})
	},
	"permanent: all errors are retryable": func(w *world, ctx context.Context) error {
		p := backoff.Policy{Classify: func(error) backoff.Class { return backoff.ClassRetryable }}
		return p.Do(ctx, func(ctx context.Context) error { // permanent: all errors are retryable
			return w.send(w.request(ctx, nil))
		})
	},
	"multiplied: a loop around the policy": func(w *world, ctx context.Context) (err error) {
		for range 3 {
			err = policy.Do(ctx, func(ctx context.Context) error { // multiplied: a loop around the policy
				return w.send(w.request(ctx, nil))
			})
			if err == nil {
				break
			}
		}
		return err
	},
	"no limit: no attempts are too many": func(w *world, ctx context.Context) error {
		p := backoff.Policy{MaxAttempts: -1}
		return p.Do(ctx, func(ctx context.Context) error { // no limit: no attempts are too many
			return w.send(w.request(ctx, nil))
		})
	},
	"no limit: a range loop": func(w *world, ctx context.Context) error {
		p := backoff.Policy{MaxAttempts: -1}
		run := p.Start(ctx)
		for ctx := range run.Attempts() { // no limit: a range loop
			err := w.send(w.request(ctx, nil))
			if err == nil {
				return nil
			}
			run.Fail(err)
		}
		return run.Err()
	},
	"no delay: constant zero": func(w *world, ctx context.Context) error {
		p := backoff.Policy{Schedule: backoff.Constant(0), MaxAttempts: 5}
		return p.Do(ctx, func(ctx context.Context) error { // no delay: constant zero
			return w.send(w.request(ctx, nil))
		})
	},
	"context: the request has another one": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(context.Context) error { // context: the request has another one
			return w.send(w.request(context.Background(), nil))
		})
	},
	"context: the attempt sleeps on": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error { // context: the attempt sleeps on
			if ctx.Err() != nil {
				time.Sleep(1200 * time.Millisecond)
			}
			return ctx.Err()
		})
	},
	"effect: an order is made twice": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(context.Context) error { // effect: an order is made twice
			w.orders.Add(1)
			return nil
		})
	},
	"effect: a request is repeated without a key": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error { // effect: a request is repeated without a key
			return w.send(w.request(ctx, strings.NewReader("hello")))
		})
	},
	"error: it is logged and forgotten": func(w *world, ctx context.Context) error {
		err := policy.Do(ctx, func(ctx context.Context) error { // error: it is logged and forgotten
			return w.send(w.request(ctx, nil))
		})
		if err != nil {
			w.t.Log(err)
		}
		return nil
	},
	"error: a status is not looked at": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error { // error: a status is not looked at
			resp, err := w.client.Do(w.request(ctx, nil))
			if err != nil {
				return err
			}
			return resp.Body.Close()
		})
	},
	"multiplied: two policies, and the inner error is new": func(w *world, ctx context.Context) error {
		inner := func(ctx context.Context) error {
			err := policy.Do(ctx, func(ctx context.Context) error { // multiplied: two policies, and the inner error is new
				return w.send(w.request(ctx, nil))
			})
			if err != nil {
				return fmt.Errorf("inner: %v", err)
			}
			return nil
		}
		return policy.Do(ctx, inner)
	},
	"multiplied: a policy around a client that retries": func(w *world, ctx context.Context) error {
		client := backoffhttp.Client(policy)
		return policy.Do(ctx, func(ctx context.Context) error {
			resp, err := client.Do(w.request(ctx, nil)) // multiplied: a policy around a client that retries
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return errors.New(resp.Status)
			}
			return nil
		})
	},
	"breaker: one for two hosts": func(w *world, ctx context.Context) error {
		shared := &backoff.Breaker{}
		for _, host := range []string{w.server, w.second} {
			err := shared.Do(ctx, func(ctx context.Context) error {
				return policy.Do(ctx, func(ctx context.Context) error { // breaker: one for two hosts
					r, _ := http.NewRequestWithContext(ctx, http.MethodGet, host, nil)
					return w.send(r)
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
	"leak: a body per attempt": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error { // leak: a body per attempt
			resp, err := w.client.Do(w.request(ctx, nil))
			if err != nil {
				return err
			}
			if resp.StatusCode != http.StatusOK {
				return errors.New(resp.Status)
			}
			return resp.Body.Close()
		})
	},
	"leak: a goroutine per attempt": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error {
			go func() { <-w.closing.Done() }() // leak: a goroutine per attempt
			return ctx.Err()
		})
	},
	"key: each attempt makes one": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error { // key: each attempt makes one
			r := w.request(ctx, nil)
			r.Header.Set("Idempotency-Key", fmt.Sprint(w.keys.Add(1)))
			return w.send(r)
		})
	},
	"header: only the first attempt is authorized": func(w *world, ctx context.Context) error {
		r := w.request(ctx, nil)
		r.Header.Set("Authorization", "secret")
		return policy.Do(ctx, func(ctx context.Context) error { // header: only the first attempt is authorized
			defer func() { r.Header = make(http.Header) }()
			return w.send(r.WithContext(ctx))
		})
	},
	"no retry: the errors of the network are permanent": func(w *world, ctx context.Context) error {
		p := backoff.Policy{Classify: func(error) backoff.Class { return backoff.ClassPermanent }}
		return p.Do(ctx, func(ctx context.Context) error { // no retry: the errors of the network are permanent
			return w.send(w.request(ctx, nil))
		})
	},
	"retry: the second attempt uses what the first one closed": func(w *world, ctx context.Context) error {
		done := false
		return policy.Do(ctx, func(ctx context.Context) error { // retry: the second attempt uses what the first one closed
			if done {
				return os.ErrClosed
			}
			done = true
			return w.send(w.request(ctx, nil))
		})
	},
}

func TestForceFindsEachMistakeAtItsLine(t *testing.T) {
	for name, program := range wrong {
		t.Run(name, func(t *testing.T) {
			kind, _, _ := strings.Cut(name, ":")
			w, r := newWorld(t), &recorder{TB: t}
			f := backofftest.Force(r)
			f.Effect(func() int { return int(w.orders.Load()) })
			if kind != "effect" && kind != "multiplied" { // what repeats a request doubles the effect, too
				f.Effect(func() int { return 0 })
			}
			f.Run(func(ctx context.Context) error { return program(w, ctx) })
			want := marked(t, name) + kind + ": "
			require.NotEmpty(t, r.failures)
			for _, got := range r.failures {
				t.Log(got)
			}
			require.Contains(t, strings.Join(r.failures, "\n"), want)
		})
	}
}

// right are programs that look like wrong ones.
var right = map[string]func(w *world, ctx context.Context) error{
	"a body for each attempt": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error {
			return w.send(w.request(ctx, strings.NewReader("hello")))
		})
	},
	"a client that repeats with a key": func(w *world, ctx context.Context) error {
		client := backoffhttp.Client(backoff.Policy{Idempotency: backoff.Keyed})
		resp, err := client.Do(w.request(ctx, strings.NewReader("hello")))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp)
	},
	"a client without a key": func(w *world, ctx context.Context) error {
		resp, err := backoffhttp.Client(policy).Do(w.request(ctx, strings.NewReader("hello")))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp)
	},
	"a range loop": func(w *world, ctx context.Context) error {
		run := policy.Start(ctx)
		for ctx := range run.Attempts() {
			err := w.send(w.request(ctx, nil))
			if err == nil {
				return nil
			}
			run.Fail(err)
		}
		return run.Err()
	},
	"a loop with Begin and Retry": func(w *world, ctx context.Context) error {
		run := policy.Start(ctx)
		ctx, ok := run.Begin(0)
		for ok {
			var wait time.Duration
			if wait, ok = run.Retry(w.send(w.request(ctx, nil))); ok {
				ctx, ok = run.Begin(wait)
			}
		}
		return run.Err()
	},
	"a limit by time": func(w *world, ctx context.Context) error {
		p := backoff.Policy{MaxAttempts: -1, MaxElapsed: time.Minute}
		return p.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
	},
	"a limit by a deadline": func(w *world, ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		p := backoff.Policy{MaxAttempts: -1}
		return p.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
	},
	"no retries by design": func(w *world, ctx context.Context) error {
		p := backoff.Policy{MaxAttempts: 1}
		return p.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
	},
	"two policies, one inside the other": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error {
			return policy.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
		})
	},
	"a loop over orders": func(w *world, ctx context.Context) error {
		var all error
		for range 3 {
			all = errors.Join(all, policy.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) }))
		}
		return all
	},
	"a function that looks at no context": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(context.Context) error { return nil })
	},
	"a breaker for each host": func(w *world, ctx context.Context) error {
		for _, host := range []string{w.server, w.second} {
			err := new(backoff.Breaker).Do(ctx, func(ctx context.Context) error {
				return policy.Do(ctx, func(ctx context.Context) error {
					r, _ := http.NewRequestWithContext(ctx, http.MethodGet, host, nil)
					return w.send(r)
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
	"goroutines that end with the program": func(w *world, ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error {
			go func() { <-ctx.Done() }()
			return w.send(w.request(ctx, nil))
		})
	},
	"a key for all attempts": func(w *world, ctx context.Context) error {
		key := fmt.Sprint(w.keys.Add(1))
		return policy.Do(ctx, func(ctx context.Context) error {
			r := w.request(ctx, nil)
			r.Header.Set("Idempotency-Key", key)
			return w.send(r)
		})
	},
	"a service around a policy": func(w *world, ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var s guard.Service
		return s.Do(ctx, policy, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
	},
	"a value": func(w *world, ctx context.Context) error {
		_, err := backoff.DoValue(ctx, policy, func(ctx context.Context) (int, error) { return 1, w.send(w.request(ctx, nil)) })
		return err
	},
	"a function that is wrapped": func(w *world, ctx context.Context) error {
		return policy.Wrap(func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })(ctx)
	},
	"a client without guards": func(w *world, ctx context.Context) error {
		client := http.Client{Transport: &backoffhttp.Unguarded{}}
		resp, err := client.Do(w.request(ctx, nil))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp)
	},
	"a timeout of each attempt": func(w *world, ctx context.Context) error {
		p := backoff.Policy{AttemptTimeout: time.Minute}
		return p.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
	},
	"a client of several calls": func(w *world, ctx context.Context) error {
		client := backoffhttp.Client(backoff.Policy{AttemptTimeout: time.Minute})
		for range 3 {
			resp, err := client.Do(w.request(ctx, nil))
			if err != nil {
				return err
			}
			resp.Body.Close()
			if err := backoffhttp.Check(resp); err != nil {
				return err
			}
		}
		return nil
	},
	"a budget of several calls": func(w *world, ctx context.Context) error {
		p := backoff.Policy{Budget: &backoff.RetryBudget{}}
		for range 5 {
			if err := p.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) }); err != nil {
				return err
			}
		}
		return nil
	},
	"a fallback": func(w *world, ctx context.Context) error {
		err := policy.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
		if err == nil {
			return nil
		}
		once := backoff.Policy{MaxAttempts: 1}
		return once.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
	},
	"a poll beside a call": func(w *world, ctx context.Context) error {
		polls := 0
		err := poll.Until(ctx, backoff.Policy{MaxElapsed: time.Minute}, func(ctx context.Context) (bool, error) {
			polls++
			return polls > 2, w.send(w.request(ctx, nil))
		})
		return errors.Join(err, policy.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) }))
	},
	"a reconnect loop beside a call": func(w *world, ctx context.Context) error {
		runs := 0
		loop := backoff.Supervisor{MaxRuns: 3}
		_ = loop.Run(ctx, func(ctx context.Context) error {
			if runs++; runs == 3 {
				return backoff.Permanent(io.EOF)
			}
			return w.send(w.request(ctx, nil))
		})
		return policy.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
	},
	"an effect that is made once": func(w *world, ctx context.Context) error {
		p := backoff.Policy{Idempotency: backoff.NonIdempotent}
		return p.Do(ctx, func(context.Context) error {
			w.orders.Add(1)
			return nil
		})
	},
}

func TestForceFindsNothingInRightPrograms(t *testing.T) {
	for name, program := range right {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := backofftest.Force(t)
			if strings.Contains(name, "effect") || strings.Contains(name, "without a key") {
				f.Effect(func() int { return int(w.orders.Load()) })
			}
			f.Run(func(ctx context.Context) error { return program(w, ctx) })
		})
	}
}

func TestForceWorksOnCallsThatRunTogether(t *testing.T) {
	w := newWorld(t)
	f := backofftest.Force(t)
	f.Run(func(ctx context.Context) error {
		var group sync.WaitGroup
		errs := make([]error, 10)
		for i := range errs {
			group.Go(func() {
				errs[i] = policy.Do(ctx, func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
			})
		}
		group.Wait()
		return errors.Join(errs...)
	})
}

func TestForceWorksInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		f := backofftest.Force(r)
		began := time.Now()
		f.Run(func(ctx context.Context) error {
			return policy.Do(ctx, func(ctx context.Context) error {
				select {
				case <-time.After(5 * time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
		require.Empty(t, r.failures)
		require.Greater(t, time.Since(began), 20*time.Second)
	})
}

func TestForceLeavesOthersAlone(t *testing.T) {
	w := newWorld(t)
	before := http.DefaultTransport
	t.Run("a test that forces", func(t *testing.T) {
		backofftest.Force(t)
		require.NotSame(t, before, http.DefaultTransport)
		require.IsType(t, before, http.DefaultTransport)
		err := policy.Do(t.Context(), func(ctx context.Context) error { return w.send(w.request(ctx, nil)) })
		require.NoError(t, err) // outside of Run
		require.EqualValues(t, 1, w.orders.Load())
	})
	require.Same(t, before, http.DefaultTransport)
	require.False(t, force.On.Load())
}

func TestForceSeesRequestsByATransportOfItsOwn(t *testing.T) {
	w, r := newWorld(t), &recorder{TB: t}
	f := backofftest.Force(r)
	w.client = &http.Client{Transport: f.Transport(&http.Transport{DisableKeepAlives: true})}
	f.Run(func(ctx context.Context) error { return wrong["key: each attempt makes one"](w, ctx) })
	require.Len(t, r.failures, 1)
	require.Contains(t, r.failures[0], "key: ")
}

func TestForceFailsWhereThereIsNothingToForce(t *testing.T) {
	for name, program := range map[string]func(context.Context) error{
		"the program calls no policy":                           func(context.Context) error { return nil },
		"the program fails without faults: file already closed": func(context.Context) error { return os.ErrClosed },
	} {
		r := &recorder{TB: t}
		done := make(chan bool)
		go func() {
			defer close(done)
			backofftest.Force(r).Run(program)
		}()
		<-done
		require.Equal(t, []string{name}, r.failures)
	}
}

// A whole suite is one in which the environment says so.
func TestAWholeSuiteIsForced(t *testing.T) {
	if os.Getenv("BACKOFF_FORCE") != "" {
		for range 4 {
			w := newWorld(t)
			_ = wrong["body: the reader is not rewound"](w, t.Context())
			require.NoError(t, right["a body for each attempt"](w, t.Context()))
			require.NoError(t, right["a client without a key"](w, t.Context())) // which must not be sent twice
		}
		return
	}
	suite := exec.Command(os.Args[0], "-test.run=^TestAWholeSuiteIsForced$")
	suite.Env = append(os.Environ(), "BACKOFF_FORCE=1")
	out, err := suite.CombinedOutput()
	require.NoError(t, err, string(out))
	lines := strings.Count(string(out), "forced: ")
	require.Equal(t, 1, lines, string(out))
	require.Contains(t, string(out), "forced: "+marked(t, "body: the reader is not rewound")+"body: ")
}
