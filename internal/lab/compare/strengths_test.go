package compare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afex/hystrix-go/hystrix"
	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/eapache/go-resiliency/batcher"
	"github.com/eapache/go-resiliency/semaphore"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/cachepolicy"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"
)

var strengths = table{
	name: "strengths",
	rows: []row{
		{"fallback", "a value in place of the error, as a policy among others", by("failsafe-go", failsafeFallback), "", "an `if err != nil` after the call"},
		{"fallback-function", "a function called when the circuit refuses or the call fails", by("cep21", cep21Fallback), "", "an `if err != nil` after the call"},
		{"cache", "results are kept, so that there is no second call", by("failsafe-go", failsafeCache), "", "nothing"},
		{"waiting-bulkhead", "a call waits for a free slot, up to a time limit", by("failsafe-go, eapache", waitingBulkheads), "", "`limit.Concurrency` refuses at once"},
		{"adaptive-concurrency", "a limit of concurrency that follows the latency", by("failsafe-go", failsafeAdaptive), "", "`pace.Pacer` finds a rate, from refusals"},
		{"by-result", "a retry because of the returned value", by("failsafe-go", failsafeByResult), "", "return an error beside the value"},
		{"future", "a call in the background whose result is asked for later", by("failsafe-go", failsafeFuture), "", "a goroutine and a channel"},
		{"all-failures", "the error matches the failures of all attempts, not only the last", by("avast", avastAllFailures), "", "only the last; an `Observer` sees each"},
		{"error-delay", "a delay that a function computes from the error", by("avast, failsafe-go", delaysByError), "", "`Policy.ByClass` for a kind of error, `RetryAfter` for one error"},
		{"error-asks", "an error says how long to wait, and the schedule starts again", by("cenkalti", cenkaltiRetryAfter), "", "`RetryAfter`, which goes on in the schedule; `Pushback`, which starts it again"},
		{"per-error", "a lower limit of attempts for one kind of error", by("avast", avastPerError), "", "`Policy.ByClass`: a limit for a class, which counts all attempts of the call"},
		{"fake-timer", "tests inject a timer; without testing/synctest, so any version of Go from 1.20", by("avast", avastFakeTimer), "", "testing/synctest"},
		{"fibonacci", "delays that grow like Fibonacci numbers", by("sethvargo", sethvargoFibonacci), "", "`Sequence`, or a `ScheduleFunc`"},
		{"ticker", "a channel that ticks after each wait", by("cenkalti", cenkaltiTicker), "", "`for range run.Attempts()`"},
		{"shared-state", "one circuit for many processes, through a store such as Redis", by("gobreaker", gobreakerShared), "", "`Breaker.Shared`: each process has its own circuit, and the others advise it"},
		{"reconfigure", "limits that change while calls are under way", by("cep21", cep21Reconfigure), "", "make a new value"},
		{"dashboard", "a stream for the Hystrix dashboard", by("hystrix-go", hystrixDashboard), "", "another page, in `backoffmetrics`"},
		{"prepare", "a function may change the request before each retry, to sign it again", by("go-retryablehttp", retryablePrepare), "", "a `RoundTripper` below the `Transport`"},
		{"batching", "several calls are made as one", by("eapache", eapacheBatch), "", "nothing"},
	},
}

func by(who string, observe observation) map[string]observation {
	return map[string]observation{who: observe}
}

func failsafeFallback(*testing.T) string {
	value, err := failsafe.With[string](fallback.NewWithResult("yesterday's")).Get(func() (string, error) { return "", errDown })
	return fmt.Sprintf("%q, %s", value, resultText(err))
}

func cep21Fallback(t *testing.T) string {
	called := false
	err := newCep21().Execute(t.Context(), failing(new(int)), func(_ context.Context, err error) error {
		called = errors.Is(err, errDown)
		return nil
	})
	return fmt.Sprintf("called: %v, %s", called, resultText(err))
}

type cache map[string]int

func (c cache) Get(key string) (int, bool) { v, ok := c[key]; return v, ok }
func (c cache) Set(key string, value int)  { c[key] = value }

func failsafeCache(*testing.T) string {
	calls := 0
	executor := failsafe.With[int](cachepolicy.NewBuilder[int](cache{}).WithKey("key").Build())
	for range 2 {
		_, _ = executor.Get(func() (int, error) { calls++; return 1, nil })
	}
	return fmt.Sprintf("%d call for 2", calls)
}

// A calling runs a call.
type calling = func(call func() error) error

func waitingBulkheads(t *testing.T) string {
	return bothSay(t, inTurn(func() calling {
		return failsafe.With[any](bulkhead.NewBuilder[any](1).WithMaxWaitTime(time.Minute).Build()).Run
	}), inTurn(func() calling {
		tickets := semaphore.New(1, time.Minute)
		return func(call func() error) error {
			if err := tickets.Acquire(); err != nil {
				return err
			}
			defer tickets.Release()
			return call()
		}
	}))
}

func inTurn(begin func() calling) observation {
	return virtual(func(*testing.T) string {
		run := begin()
		began, errs := time.Now(), make([]error, 2)
		together(2, time.Millisecond, func(i int) {
			errs[i] = run(func() error { time.Sleep(time.Second); return nil })
		})
		return fmt.Sprintf("two calls of 1 s in turn, within %v, %s", time.Since(began).Round(time.Second), resultText(errors.Join(errs...)))
	})
}

// bothSay is for a row of two libraries, which must behave alike.
func bothSay(t *testing.T, first, second observation) string {
	seen := first(t)
	require.Equal(t, seen, second(t))
	return seen
}

func delaysByError(t *testing.T) string {
	delay := func(err error) time.Duration {
		if errors.Is(err, errBusy) {
			return time.Minute
		}
		return time.Second
	}
	return bothSay(t, waitsBetween(func(op func() error) {
		byError := func(_ uint, err error, _ avast.DelayContext) time.Duration { return delay(err) }
		_ = avast.New(avast.Attempts(3), avast.DelayType(byError)).Do(op)
	}), waitsBetween(func(op func() error) {
		byError := func(e failsafe.ExecutionAttempt[any]) time.Duration { return delay(e.LastError()) }
		_ = failsafe.With(retrypolicy.NewBuilder[any]().WithDelayFunc(byError).Build()).Run(op)
	}))
}

func cenkaltiRetryAfter(t *testing.T) string {
	return waitsBetween(func(op func() error) {
		_, _ = cenkalti.Retry(context.Background(), func() (any, error) {
			err := op()
			if errors.Is(err, errBusy) {
				err = cenkalti.RetryAfter(time.Minute, err)
			}
			return nil, err
		}, cenkalti.WithMaxTries(3), cenkalti.WithBackOff(&cenkalti.ExponentialBackOff{InitialInterval: time.Second, Multiplier: 2, MaxInterval: time.Hour}))
	})(t)
}

var errBusy = errors.New("busy")

// waitsBetween tells the waits of a call that is first busy, and then down.
func waitsBetween(run func(op func() error)) observation {
	return virtual(func(*testing.T) string {
		var waits []string
		last, attempts := time.Now(), 0
		run(func() error {
			if attempts++; attempts > 1 {
				waits = append(waits, time.Since(last).String())
			}
			last = time.Now()
			if attempts == 1 {
				return errBusy
			}
			return errDown
		})
		return strings.Join(waits, " after \"busy\", ") + " after \"down\""
	})
}

func failsafeAdaptive(t *testing.T) string {
	return virtual(func(t *testing.T) string {
		l := adaptivelimiter.NewWithDefaults[any]()
		before := l.Limit()
		for i := range 2000 { // latency that grows with what is under way
			together(int(min(l.Limit(), 40)), 0, func(int) {
				permit, ok := l.TryAcquirePermit()
				if !ok {
					return
				}
				time.Sleep(10*time.Millisecond + time.Duration(i)*time.Millisecond)
				permit.Record()
			})
			if l.Limit() < before {
				return "as latency grows, the limit falls"
			}
		}
		return fmt.Sprintf("the limit does not fall below %d", l.Limit())
	})(t)
}

func failsafeByResult(t *testing.T) string {
	return virtual(func(*testing.T) string {
		calls := 0
		p := retrypolicy.NewBuilder[int]().HandleResult(0).Build()
		value, _ := failsafe.With[int](p).Get(func() (int, error) { calls++; return calls - 1, nil })
		return fmt.Sprintf("%d calls, value %d", calls, value)
	})(t)
}

func failsafeFuture(*testing.T) string {
	result := failsafe.With[int](retrypolicy.NewWithDefaults[int]()).GetAsync(func() (int, error) { return 7, nil })
	value, err := result.Get()
	return fmt.Sprintf("%d, %s", value, resultText(err))
}

func avastAllFailures(*testing.T) string {
	first, calls := errors.New("first"), 0
	err := avast.New(avast.Attempts(2), avast.WithTimer(&recordingTimer{})).Do(func() error {
		if calls++; calls == 1 {
			return first
		}
		return errDown
	})
	return matched(err, named{"first", first}, named{"last", errDown})
}

func avastPerError(*testing.T) string {
	calls := 0
	_ = avast.New(avast.Attempts(10), avast.AttemptsForError(2, errDown), avast.WithTimer(&recordingTimer{})).Do(func() error {
		calls++
		return errDown
	})
	return fmt.Sprintf("%d attempts of 10", calls)
}

func avastFakeTimer(t *testing.T) string {
	began := time.Now()
	waits := avastWaits(t, 0, avast.Attempts(3), avast.Delay(time.Hour))
	return fmt.Sprintf("%d waits of an hour and more, no time passed: %v", len(waits), time.Since(began) < time.Minute)
}

func sethvargoFibonacci(*testing.T) string {
	b := sethvargo.NewFibonacci(time.Second)
	var all []string
	for range 6 {
		d, _ := b.Next()
		all = append(all, fmt.Sprint(d.Seconds()))
	}
	return strings.Join(all, ", ") + " s"
}

func cenkaltiTicker(t *testing.T) string {
	return virtual(func(*testing.T) string {
		ticker := cenkalti.NewTicker(cenkalti.NewConstantBackOff(time.Second))
		defer ticker.Stop()
		began := time.Now()
		for range 4 {
			<-ticker.C
		}
		return fmt.Sprintf("4 ticks in %v", time.Since(began))
	})(t)
}

func gobreakerShared(*testing.T) string {
	store := &memoryStore{data: map[string][]byte{}}
	first, err := gobreaker.NewDistributedCircuitBreaker[any](store, gobreaker.Settings{Name: "shared"})
	if err != nil {
		return err.Error()
	}
	second, err := gobreaker.NewDistributedCircuitBreaker[any](store, gobreaker.Settings{Name: "shared"})
	if err != nil {
		return err.Error()
	}
	for range 6 {
		_, _ = first.Execute(func() (any, error) { return nil, errDown })
	}
	state, _ := second.State()
	return "failures seen by one, the other is " + state.String()
}

func cep21Reconfigure(t *testing.T) string {
	return virtual(func(t *testing.T) string {
		c := newCep21()
		before := admitted(aCircuit{do: c.Run}, 50)
		config := c.Config()
		config.Execution.MaxConcurrentRequests = 40
		c.SetConfigThreadSafe(config)
		c.CloseCircuit(t.Context())
		return fmt.Sprintf("of 50 at once %d admitted, then %d", before, admitted(aCircuit{do: c.Run}, 50))
	})(t)
}

func hystrixDashboard(*testing.T) string {
	stream := hystrix.NewStreamHandler()
	stream.Start()
	defer stream.Stop()
	server := httptest.NewServer(stream)
	defer server.CloseClientConnections()
	_ = hystrix.Do("dashboard", func() error { return nil }, nil)
	resp, err := http.Get(server.URL)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	return resp.Header.Get("Content-Type")
}

func retryablePrepare(t *testing.T) string {
	return virtual(func(t *testing.T) string {
		s := down()
		s.answers = append(s.answers, answer{status: 200})
		c := newRetryable(s)
		c.Logger = nil
		prepared := 0
		c.PrepareRetry = func(*http.Request) error { prepared++; return nil }
		resp, err := c.StandardClient().Do(request(t.Context(), "GET", nil))
		if err != nil {
			return err.Error()
		}
		resp.Body.Close()
		return fmt.Sprintf("called %d time for 1 retry", prepared)
	})(t)
}

func eapacheBatch(t *testing.T) string {
	return virtual(func(*testing.T) string {
		var mu sync.Mutex
		batches := 0
		b := batcher.New(10*time.Millisecond, func([]any) error {
			mu.Lock()
			defer mu.Unlock()
			batches++
			return nil
		})
		together(20, 0, func(i int) { _ = b.Run(i) })
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprintf("%d batch of 20 calls", batches)
	})(t)
}
