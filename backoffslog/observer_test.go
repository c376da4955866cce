package backoffslog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/hedge"
)

var errBoom = errors.New("boom")

// throttled is the answer of a service, with headers.
type throttled struct{}

func (throttled) Error() string       { return "throttled" }
func (throttled) HTTPStatusCode() int { return 429 }
func (throttled) ResponseHeader() map[string][]string {
	return map[string][]string{
		"Retry-After": {"60"}, "X-Amzn-Requestid": {"7f1c"}, "grpc-status": {"8"},
		"Set-Cookie": {"sid=hunter2"}, "Authorization": {"hunter2"}, "Location": {"https://ann:hunter2@example.com/?key=hunter2"},
	}
}

// journal keeps the records of a logger.
type journal struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Write(p)
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// records returns what was logged, without the time.
func (j *journal) records(t *testing.T) []map[string]any {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []map[string]any
	for line := range strings.Lines(j.out.String()) {
		r := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		require.Contains(t, r, "time")
		delete(r, "time")
		all = append(all, r)
	}
	return all
}

// recordOf returns the record of an event.
func recordOf(t *testing.T, o *backoffslog.Options, e backoff.Event) map[string]any {
	t.Helper()
	var j journal
	backoffslog.New(j.logger(), o)(t.Context(), e)
	return j.records(t)[0]
}

func failing(errs ...error) func(context.Context) error {
	return func(context.Context) error {
		err := errs[0]
		if len(errs) > 1 {
			errs = errs[1:]
		}
		return err
	}
}

func half() float64 { return 0.5 }

func TestEveryFieldIsInTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		policy := backoff.Policy{
			Name: "fetch", MaxAttempts: 3, MaxElapsed: time.Hour, Rand: half, Schedule: backoff.Linear{Initial: 2 * time.Second},
			Observer: backoffslog.New(j.logger(), nil),
		}
		asked := backoff.RetryAfter(throttled{}, time.Minute)
		require.ErrorIs(t, policy.Do(t.Context(), failing(errBoom, asked, errBoom)), backoff.ErrExhausted)

		const s = float64(time.Second)
		require.Equal(t, []map[string]any{
			{
				"level": "INFO", "msg": "retry", "operation": "fetch", "attempt": 1.0, "max_attempts": 3.0,
				"class": "unknown", "error": "boom", "error_type": "*errors.errorString",
				"delay": 2 * s, "wait": s, "slept": 0.0,
			},
			{
				"level": "INFO", "msg": "retry", "operation": "fetch", "attempt": 2.0, "max_attempts": 3.0,
				"class": "throttled", "error": "throttled", "error_type": "429",
				"delay": 4 * s, "wait": 63 * s, "slept": s, "retry_after": 60 * s, "elapsed": s,
				"header": map[string]any{"retry-after": "60", "x-amzn-requestid": "7f1c", "grpc-status": "8"},
			},
			{
				"level": "WARN", "msg": "give up", "operation": "fetch", "attempt": 3.0, "max_attempts": 3.0,
				"reason": "attempts", "setting": "MaxAttempts", "class": "unknown", "error": "boom", "error_type": "*errors.errorString",
				"slept": 63 * s, "elapsed": 64 * s,
			},
		}, j.records(t))
	})
}

func TestACallThatEndedWhileItWaitedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		policy := backoff.Policy{Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, Observer: backoffslog.New(j.logger(), nil)}
		require.ErrorIs(t, policy.Do(ctx, failing(errBoom)), context.Canceled)
		end := j.records(t)[1]
		require.Equal(t, "canceled", end["reason"])
		require.Equal(t, true, end["waiting"])
		require.EqualValues(t, time.Second, end["elapsed"])
	})
}

// Such an event has the error of the last attempt, and no class.
func TestACallThatEndedWhileItWaitedHasTheClassOfItsLastError(t *testing.T) {
	e := backoff.Event{Kind: backoff.EventGiveUp, Reason: backoff.ReasonDeadline, Attempt: 1, Waiting: true, Err: &backoffhttp.StatusError{Code: 429}}
	require.Equal(t, "throttled", recordOf(t, nil, e)["class"])
}

// waits is a budget whose calls wait for their turn.
type waits struct{ backoff.BudgetDefaults }

func (waits) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, time.Minute, true
}

// Hundreds of such records are all that a log says about a service that
// throttles.
func TestACallThatEndedBeforeItsTurnHasAClassAndAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, policy := range []backoff.Policy{{}, {MaxElapsed: time.Second}} {
			for _, timeout := range []time.Duration{time.Second, time.Hour} {
				var j journal
				policy.Name, policy.Budget, policy.Observer = "save", waits{}, backoffslog.New(j.logger(), nil)
				ctx, cancel := context.WithCancel(t.Context())
				if timeout == time.Second {
					ctx, cancel = context.WithTimeout(t.Context(), timeout)
				}
				time.AfterFunc(time.Second/2, cancel)
				err := policy.Do(ctx, failing(errBoom))
				require.Error(t, err)
				end := j.records(t)[0]
				require.Equal(t, 0.0, end["attempt"])
				require.Equal(t, "not sent", end["class"])
				require.NotContains(t, end, "error_type", "a timeout would look like a slow service")
				require.Equal(t, policy.Name, end["operation"])
				require.Contains(t, end["error"], "backoff: save: not started: ")
				if !strings.Contains(err.Error(), "the Budget makes it wait until after the deadline") {
					require.Equal(t, err.Error(), end["error"])
				}
			}
		}
	})
}

func TestSuccessTellsWhetherItTookRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		policy := backoff.Policy{Name: "fetch", MaxAttempts: -1, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Observer: backoffslog.New(j.logger(), nil)}
		require.NoError(t, policy.Do(t.Context(), failing(nil)))
		require.NoError(t, policy.Do(t.Context(), failing(errBoom, nil)))
		records := j.records(t)
		require.Equal(t, map[string]any{"level": "DEBUG", "msg": "success", "operation": "fetch", "attempt": 1.0}, records[0])
		require.Equal(t, map[string]any{
			"level": "INFO", "msg": "success", "operation": "fetch", "attempt": 2.0, "slept": float64(time.Second), "elapsed": float64(time.Second),
		}, records[2])
	})
}

func TestABreakerTellsFromToAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := &backoff.Breaker{
			Name: "search", ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, ProbeSuccesses: 1,
			Observer: backoffslog.New(j.logger(), nil),
		}
		require.Error(t, b.Do(t.Context(), failing(errBoom)))
		require.ErrorIs(t, b.Do(t.Context(), failing(nil)), backoff.ErrOpen)
		time.Sleep(time.Minute)
		require.NoError(t, b.Do(t.Context(), failing(nil)))
		synctest.Wait()
		require.ElementsMatch(t, []map[string]any{
			{
				"level": "WARN", "msg": "transition", "operation": "search", "from": "closed", "to": "open", "trigger": "consecutive",
				"generation": 1.0, "retry_after": float64(time.Minute), "error": "boom", "error_type": "*errors.errorString",
			},
			{
				"level": "WARN", "msg": "refused", "operation": "search", "reason": "open", "setting": "OpenFor", "class": "unknown",
				"error": j.records(t)[1]["error"], "error_type": "*backoff.OpenError",
			},
			{"level": "INFO", "msg": "transition", "operation": "search", "from": "open", "to": "half-open", "trigger": "time", "generation": 2.0, "error": "boom", "error_type": "*errors.errorString"},
			{"level": "INFO", "msg": "transition", "operation": "search", "from": "half-open", "to": "closed", "trigger": "probe", "generation": 3.0},
		}, j.records(t))
	})
}

func TestAHedgeTellsItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		h := &hedge.Hedge{Name: "read", Delay: time.Second, MaxExtraLoad: -1, Observer: backoffslog.New(j.logger(), nil)}
		_, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 0 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 1, nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, map[string]any{
			"level": "DEBUG", "msg": "hedge won", "operation": "read", "attempt": 2.0, "max_attempts": 2.0, "hedge": 1.0, "delay": float64(time.Second),
		}, j.records(t)[0])
	})
}

// The default level of every event, as the documentation of DefaultLevel says.
func TestTheLevelsAreThoseOfTheDocumentation(t *testing.T) {
	to := func(state backoff.BreakerState) backoff.Event {
		return backoff.Event{Kind: backoff.EventTransition, Transition: &backoff.BreakerTransition{To: state}}
	}
	end := func(kind backoff.EventKind, why backoff.Reason) backoff.Event {
		return backoff.Event{Kind: kind, Reason: why}
	}
	for level, events := range map[slog.Level][]backoff.Event{
		slog.LevelDebug: {
			{Kind: backoff.EventSuccess, Attempt: 1}, {Kind: backoff.EventHedgeWon}, {Kind: backoff.EventHedgeLost},
		},
		slog.LevelInfo: {
			{Kind: backoff.EventSuccess, Attempt: 2}, {Kind: backoff.EventRetry}, {Kind: backoff.EventReconnect},
			{Kind: backoff.EventRefused, Reason: backoff.ReasonOpen, Attempt: 1, Wait: time.Second},
			{Kind: backoff.EventTransition}, to(backoff.BreakerHalfOpen), to(backoff.BreakerClosed),
			end(backoff.EventRefused, backoff.ReasonBudget), end(backoff.EventGiveUp, backoff.ReasonPermanent),
			end(backoff.EventGiveUp, backoff.ReasonCanceled), end(backoff.EventGiveUp, backoff.ReasonAbandoned),
		},
		slog.LevelWarn: {
			end(backoff.EventGiveUp, backoff.ReasonBudget), end(backoff.EventGiveUp, backoff.ReasonDeadline),
			end(backoff.EventRefused, backoff.ReasonOpen), to(backoff.BreakerOpen),
		},
		slog.LevelError: {
			end(backoff.EventGiveUp, backoff.ReasonInvalid), end(backoff.EventRefused, backoff.ReasonInvalid),
		},
	} {
		for _, e := range events {
			require.Equal(t, level, backoffslog.DefaultLevel(e), "%+v", e)
		}
	}
}

func TestALevelOfOnesOwn(t *testing.T) {
	var j journal
	observe := backoffslog.New(j.logger(), &backoffslog.Options{Level: func(e backoff.Event) slog.Level {
		if e.Kind == backoff.EventRetry {
			return backoffslog.LevelOff
		}
		return slog.LevelError
	}})
	observe(t.Context(), backoff.Event{Kind: backoff.EventRetry})
	observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Attempt: 1})
	require.Len(t, j.records(t), 1)
	require.Equal(t, "ERROR", j.records(t)[0]["level"])
}

func TestTheDefaultLoggerIsTheOneOfTheMoment(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	observe := backoffslog.New(nil, nil)
	var j journal
	slog.SetDefault(j.logger())
	observe(t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: "fetch"})
	require.Len(t, j.records(t), 1)
}

// A handler that adds a trace to every record finds it in the call's context.
func TestTheHandlerGetsTheContextOfTheCall(t *testing.T) {
	type key struct{}
	var j journal
	h := handler{j.logger().Handler(), func(ctx context.Context, r *slog.Record) {
		r.AddAttrs(slog.Any("trace", ctx.Value(key{})))
	}}
	observe := backoffslog.New(slog.New(h), nil)
	observe(context.WithValue(t.Context(), key{}, "7"), backoff.Event{Kind: backoff.EventRetry})
	require.Equal(t, "7", j.records(t)[0]["trace"])
}

// handler adds attributes to every record.
type handler struct {
	slog.Handler
	add func(context.Context, *slog.Record)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	h.add(ctx, &r)
	return h.Handler.Handle(ctx, r)
}

func TestHeadersAreChosen(t *testing.T) {
	event := backoff.Event{Kind: backoff.EventRetry, Err: throttled{}, Header: throttled{}.ResponseHeader()}
	for _, c := range []struct {
		names []string
		want  any
	}{
		{nil, map[string]any{"retry-after": "60", "x-amzn-requestid": "7f1c", "grpc-status": "8"}},
		{[]string{}, nil},
		{[]string{"x-AMZN-requestId", "Missing"}, map[string]any{"x-amzn-requestid": "7f1c"}},
		{
			[]string{"Location", "Set-Cookie", "authorization"},
			map[string]any{"location": "https://xxxxx@example.com/?key=xxxxx", "set-cookie": "xxxxx", "authorization": "xxxxx"},
		},
	} {
		require.Equal(t, c.want, recordOf(t, &backoffslog.Options{Headers: c.names}, event)["header"])
	}
}

// An outage: a thousand calls in each of three seconds.
func TestAnOutageDoesNotFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		observe := backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: 2})
		for range 3 {
			for range 1000 {
				observe(t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: "fetch", Err: errBoom})
			}
			observe(t.Context(), backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Reason: backoff.ReasonBudget})
			observe(t.Context(), backoff.Event{Kind: backoff.EventGiveUp, Name: "other", Reason: backoff.ReasonBudget})
			for range 5 {
				observe(t.Context(), backoff.Event{Kind: backoff.EventTransition, Name: "fetch", Transition: new(backoff.BreakerTransition)})
			}
			time.Sleep(time.Second)
		}
		count := map[any]int{}
		var suppressed []any
		for _, r := range j.records(t) {
			count[r["msg"]]++
			if n, ok := r["suppressed"]; ok {
				suppressed = append(suppressed, n)
			}
		}
		require.Equal(t, map[any]int{"retry": 6, "give up": 6, "transition": 15}, count)
		require.Equal(t, []any{998.0, 998.0}, suppressed)
	})
}

// The first record of a kind is written, whatever the traffic before it.
func TestTheFirstOfEachReasonIsWritten(t *testing.T) {
	var j journal
	observe := backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: 1})
	for range 100 {
		observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
		observe(t.Context(), backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Reason: backoff.ReasonPermanent})
	}
	observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 2})
	observe(t.Context(), backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Reason: backoff.ReasonBudget})
	require.Equal(t, "budget", j.records(t)[3]["reason"])
}

func TestNoLimitMeansEveryRecord(t *testing.T) {
	var j journal
	observe := backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: -1})
	for range 1000 {
		observe(t.Context(), backoff.Event{Kind: backoff.EventRetry})
	}
	require.Len(t, j.records(t), 1000)
}

// Untrusted clients may choose names. The memory for them is bounded.
func TestManyOperationsShareALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		observe := backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: 1})
		for i := range 10_000 {
			observe(t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: fmt.Sprint("operation ", i)})
		}
		require.Len(t, j.records(t), 4096+1)
		time.Sleep(time.Second)
		observe(t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: "operation 9999"})
		require.Equal(t, float64(10_000-4096-1), j.records(t)[4097]["suppressed"])
	})
}

// Every event is written or counted as suppressed, on any number of goroutines.
func TestNothingIsLostUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written, suppressed atomic.Int64
		h := handler{slog.NewTextHandler(io.Discard, nil), func(_ context.Context, r *slog.Record) {
			written.Add(1)
			r.Attrs(func(a slog.Attr) bool {
				if a.Key == "suppressed" {
					suppressed.Add(int64(a.Value.Uint64()))
				}
				return true
			})
		}}
		observe := backoffslog.New(slog.New(h), nil)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for i := range 1000 {
					observe(t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: "fetch"})
					if i%100 == 0 {
						time.Sleep(100 * time.Millisecond)
					}
				}
			})
		}
		group.Wait()
		time.Sleep(time.Second)
		observe(t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: "fetch"})
		require.EqualValues(t, 8001, written.Load()+suppressed.Load())
	})
}

// errHostile is an error that tries to write to the log itself.
var errHostile = errors.New("get \"https://ann:hunter2@example.com/?key=hunter2\": \x1b[31m\nlevel=INFO msg=\"all is well\"\x00\xff")

func TestAHostileTextStaysOneRecordWithoutTheSecret(t *testing.T) {
	for name, make := range map[string]func(io.Writer) slog.Handler{
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	} {
		var out bytes.Buffer
		policy := backoff.Policy{
			Name: "https://ann:hunter2@example.com/?key=hunter2", MaxAttempts: 1, Idempotency: backoff.Keyed,
			Observer: backoffslog.New(slog.New(make(&out)), nil),
		}
		ctx := backoff.WithIdempotencyKey(t.Context(), "hunter2")
		err := policy.Do(ctx, failing(errHostile))
		require.ErrorContains(t, err, "hunter2", "the caller's error is not changed")
		require.NotContains(t, out.String(), "hunter2", name)
		require.Equal(t, 1, strings.Count(out.String(), "\n"), name)
		require.NotContains(t, out.String(), "\x1b", name)
	}
}

// panicking is an error without a text.
type panicking struct{}

func (*panicking) Error() string { panic("no text") }

func TestAnErrorThatPanicsIsLoggedAllTheSame(t *testing.T) {
	r := recordOf(t, nil, backoff.Event{Kind: backoff.EventRetry, Err: new(panicking)})
	require.Equal(t, "(Error panicked)", r["error"])
	require.Equal(t, "*backoffslog_test.panicking", r["error_type"])
}

func TestWhatIsOffCostsNoAllocation(t *testing.T) {
	logger := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))
	own := &backoffslog.Options{Level: func(backoff.Event) slog.Level { return backoffslog.LevelOff }}
	for _, o := range []*backoffslog.Options{nil, own} {
		observe := backoffslog.New(logger, o)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			observe(context.Background(), backoff.Event{Kind: backoff.EventSuccess, Attempt: 1})
			observe(context.Background(), backoff.Event{Kind: backoff.EventRetry, Err: errBoom})
		}))
	}
}

func TestARecordSaysWhatTheCallIsSentTo(t *testing.T) {
	var j journal
	for _, name := range []string{"checkout", ""} {
		policy := backoff.Policy{Name: name, MaxAttempts: 1, Observer: backoffslog.New(j.logger(), nil)}
		ctx := endpoint.With(t.Context(), &endpoint.Endpoint{Name: "GET api.test/?token=hunter2"})
		require.Error(t, policy.Do(ctx, failing(errBoom)))
	}
	named, nameless := j.records(t)[0], j.records(t)[1]
	require.Equal(t, "checkout", named["operation"])
	require.Equal(t, "GET api.test/?token=xxxxx", named["endpoint"], "without secrets")
	require.Equal(t, named["endpoint"], nameless["operation"], "rather than nothing")
}

// An Endpoint may be made anew for each request.
func TestRecordsAreSampledByTheNameOfTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		policy := backoff.Policy{MaxAttempts: 1, Observer: backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: 1})}
		for _, name := range []string{"GET a", "GET b"} {
			for range 5 {
				ctx := endpoint.With(t.Context(), &endpoint.Endpoint{Name: name})
				require.Error(t, policy.Do(ctx, failing(errBoom)))
			}
		}
		records := j.records(t)
		require.Len(t, records, 2)
		require.Equal(t, "GET b", records[1]["endpoint"])
	})
}

func TestEveryReasonIsInTheRecordAndEachLimitNamesItsSetting(t *testing.T) {
	settings := map[backoff.Reason]any{
		backoff.ReasonAttempts: "MaxAttempts", backoff.ReasonElapsed: "MaxElapsed", backoff.ReasonRetryAfter: "MaxRetryAfter",
		backoff.ReasonNotIdempotent: "Idempotency", backoff.ReasonBudget: "Budget", backoff.ReasonOpen: "OpenFor",
	}
	for why := backoff.ReasonPermanent; why.String() != "unknown"; why++ {
		r := recordOf(t, nil, backoff.Event{Kind: backoff.EventGiveUp, Reason: why, Attempt: 1, Err: errBoom})
		require.Equal(t, "give up", r["msg"])
		require.Equal(t, why.String(), r["reason"])
		require.Equal(t, settings[why], r["setting"], why)
	}
}

func TestARefusalHasTheClassOfTheFailureThatOpenedTheCircuit(t *testing.T) {
	var j journal
	breaker := backoff.Breaker{
		Name: "search", ConsecutiveFailures: 1, ConsecutiveSpan: -1,
		Observer: backoffslog.New(j.logger(), nil),
	}
	down := backoff.OfClass(errors.New("down"), backoff.ClassNotSent)
	policy := backoff.Policy{Schedule: backoff.Constant(0)}
	require.Error(t, breaker.Do(t.Context(), func(ctx context.Context) error { return policy.Do(ctx, failing(down)) }))
	require.ErrorIs(t, breaker.Do(t.Context(), failing(errBoom)), backoff.ErrOpen)
	records := j.records(t)
	refused := records[len(records)-1]
	require.Equal(t, "refused", refused["msg"])
	require.Equal(t, "OpenFor", refused["setting"])
	require.Equal(t, "not sent", refused["class"])

	var never journal
	breaker = backoff.Breaker{Observer: backoffslog.New(never.logger(), nil)}
	breaker.Force(backoff.ModeForcedOpen)
	require.ErrorIs(t, breaker.Do(t.Context(), failing(errBoom)), backoff.ErrOpen)
	records = never.records(t)
	require.Equal(t, "unknown", records[len(records)-1]["class"], "there was no failure")
}

// Searches and alerts go by these names, so a new release adds to them and
// changes none.
func TestTheNamesInRecordsArePromised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		observe := backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: 1})
		full := backoff.Event{
			Name: "fetch", Reason: backoff.ReasonBudget, Waiting: true, Attempt: 2, MaxAttempts: 4, Err: errors.New("down"),
			Delay: 1, Wait: 1, Slept: 1, RetryAfter: 1, Elapsed: 1, Header: map[string][]string{"Retry-After": {"1"}},
			Transition: &backoff.BreakerTransition{RetryAfter: time.Second, Err: errors.New("down")},
		}
		ctx := endpoint.With(t.Context(), &endpoint.Endpoint{Name: "GET api"})
		for range 3 { // the second one is suppressed, the third one says so
			for kind := backoff.EventRetry; kind.String() != "unknown"; kind++ {
				full.Kind = kind
				observe(ctx, full)
			}
			time.Sleep(600 * time.Millisecond)
		}
		observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: "fetch"})
		observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: "fetch"})
		time.Sleep(4 * time.Second)
		synctest.Wait()
		var messages, attributes []string
		for _, r := range j.records(t) {
			messages = append(messages, r["msg"].(string))
			for name := range r {
				attributes = append(attributes, name)
			}
		}
		require.Equal(t, "give up, hedge lost, hedge won, reconnect, refused, retry, success, suppressed, transition", list(messages))
		require.Equal(t, "attempt, class, delay, elapsed, endpoint, error, error_type, event, from, generation, header, hedge, level, max_attempts, msg, "+
			"operation, reason, retry_after, setting, slept, suppressed, to, trigger, wait, waiting", list(attributes))
	})
}

// list returns each of the names once, in order.
func list(names []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", ")
}

// They are the values of class, reason, from and to, and the labels of
// the metrics.
func TestTheNamesOfValuesArePromised(t *testing.T) {
	require.Equal(t, "unknown, not sent, retryable, throttled, overloaded, permanent", values[backoff.Class]("invalid"))
	require.Equal(t, "success, permanent, attempts, elapsed, retry after, deadline, canceled, not idempotent, overloaded, abandoned, "+
		"budget, open, invalid", values[backoff.Reason]("unknown"))
	require.Equal(t, "closed, open, half-open", values[backoff.BreakerState]("invalid"))
}

// values returns the names of the values of a type, up to the one that stands
// for all that are not known.
func values[T interface {
	~uint8
	String() string
}](end string) string {
	var all []string
	for v := T(0); v.String() != end; v++ {
		all = append(all, v.String())
	}
	return strings.Join(all, ", ")
}
