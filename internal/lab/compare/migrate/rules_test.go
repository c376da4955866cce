package migrate

import (
	"context"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffhttp"
)

// A rule says what becomes of a piece of code, so exactly that a tool can do it.
// Its move shows that the code does the same afterwards, or better.
type rule struct {
	id, from, to string // the code is in rules_before_test.go and rules_here_test.go
	when         string // it holds; "" means always
	changes      string
	move
}

const (
	justWhy  = "The error also says why the call ended"
	nothing  = "Nothing"
	exponent = "backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 1.5, Max: time.Minute}"
)

var down = times(1, answer{err: errDown})

// failing are calls that fail for ever, and end with an error that says why.
func failing(before, here form, attempts, least, most float64) move {
	was := outcome{attempts: exactly(attempts), gaps: [2]float64{least, most}, sees: "last failure"}
	is := was
	is.sees = "last failure, limit"
	return move{script: down, before: before, here: here, was: was, is: is, better: []reason{saysWhy}}
}

// failingWith are the same calls with another error.
func (m move) failingWith(err error) move {
	m.script = times(1, answer{err: err})
	return m
}

// unchanged are calls of which nothing differs.
func unchanged(before, here form, script []answer, expected outcome) move {
	return move{script: script, before: before, here: here, was: expected}
}

var (
	tenth       = append(times(9, answer{err: errDown}), answer{})
	finalErrors = []answer{{err: x509.UnknownAuthorityError{}}, {err: noSuchName}, {err: context.Canceled}, {err: context.DeadlineExceeded}, {err: &backoffhttp.StatusError{Code: 404}}, {}}

	avastEnds = move{script: down, deadline: 5 * time.Second, before: beforeAvastContext, here: hereAvastContext,
		was:    outcome{attempts: exactly(3), gaps: exactly(2), after: exactly(1), sees: "deadline"},
		is:     outcome{attempts: exactly(3), gaps: exactly(2), sees: "last failure, deadline"},
		better: []reason{noLastWait, saysWhy}}
	sethvargosTime = inTime(beforeSethvargoTime)
	failsafesTime  = inTime(beforeFailsafe(failsafeTime))
)

// inTime are calls that fail after 100 ms each, and once more at their limit of
// 10 s. Without those failsafe-go would try again for ever at its limit.
func inTime(before form) move {
	m := failing(before, hereFields(shortened()), 5, 0.6, 3)
	m.script = times(1, answer{err: errDown, took: 100 * time.Millisecond})
	return m
}

// delayedByError are calls of which one kind of failure has a delay of its own.
func delayedByError(before form) move {
	script := []answer{{err: errBusy}, {err: errDown}, {err: errBusy}, {}}
	return unchanged(before, hereFields(delayedByClass()), script, outcome{attempts: exactly(4), gaps: [2]float64{0.1, 1}, sees: "done"})
}

// Rules of a library.
type rulesOf struct {
	library string
	rules   []rule
}

var rules = []rulesOf{
	{"All libraries", []rule{
		{"M30", "cenkalti.Retry(ctx, f)", "Classify: backoff.RetryIf(func(error) bool { return true })", "f may fail with errors that are known to be final here, and they are to be retried as before: all but marked ones. The same is true of every library but sethvargo", "What an inner policy gave up on stays final",
			unchanged(beforeCall, hereFields(everyError()), finalErrors, outcome{attempts: exactly(6), gaps: [2]float64{0.25, 3.8}, sees: "done"})},
		{"M28", "if err == X {", "if backoff.Cause(err) == X {", "Likewise !=. errors.Is and errors.As need nothing", nothing,
			unchanged(beforeCompared, hereCompared, times(1, answer{err: errBusy}), outcome{attempts: exactly(3), gaps: [2]float64{0.25, 1.13}, sees: "busy"})},
		{"M59", "if e, ok := err.(T); ok {", "if e, ok := backoff.Cause(err).(T); ok {", "", nothing,
			unchanged(beforeAsserted, hereAsserted, times(1, answer{err: errBroken}), outcome{attempts: exactly(3), gaps: [2]float64{0.25, 1.13}, sees: "read"})},
		{"M65", "cenkalti7.AsRetryError(err).LastErr", "backoff.Cause(err)", "In v6 it is the same", nothing,
			unchanged(beforeLastErr, hereLastErr, times(1, answer{err: errBusy}), outcome{attempts: exactly(3), gaps: [2]float64{0.25, 1.13}, sees: "last failure"})},
		{"M60", "switch e := err.(type) {", "switch e := backoff.Cause(err).(type) {", "", nothing,
			unchanged(beforeSwitched, hereSwitched, times(1, answer{err: errBroken}), outcome{attempts: exactly(3), gaps: [2]float64{0.25, 1.13}, sees: "read"})},
	}},
	{"cenkalti/backoff", []rule{
		{"M1", "cenkalti.Retry(ctx, f)", "backoff.DoValue(ctx, &policy, f)", "Without the options below, policy has MaxAttempts: -1, MaxElapsed: 15 * time.Minute, Schedule: " + exponent + " and Jitter: backoff.UniformJitter(0.5, 1.5)",
			"f gets the context. " + justWhy,
			move{script: down, deadline: 5 * time.Minute, before: beforeCall, here: hereCall,
				was:    outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, after: [2]float64{0, 90}, sees: "deadline"},
				is:     outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, sees: "last failure, deadline"},
				better: []reason{noLastWait, saysWhy}}},
		{"M2", "cenkalti.WithBackOff(cenkalti.NewConstantBackOff(D))", "Schedule: backoff.Constant(D), Jitter: backoff.NoJitter", "", nothing,
			failing(beforeConstant, hereEvery, 21, 3, 3)},
		{"M3", "cenkalti.WithMaxElapsedTime(E)", "MaxElapsed: E", "In v4, b.MaxElapsedTime = E is the same. For 0 leave it out", justWhy,
			failing(beforeConstant, hereEvery, 21, 3, 3)},
		{"M62", "cenkalti.WithBackOff(cenkalti.NewConstantBackOff(D)), cenkalti.WithMaxElapsedTime(E)", "backoff.Policy{MaxAttempts: -1, MaxElapsed: E, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}",
			"Both options are given, and no WithMaxTries", justWhy, failing(beforeConstant, hereEvery, 21, 3, 3)},
		{"M4", "cenkalti.WithMaxTries(N)", "MaxAttempts: N", "N > 0", justWhy,
			failing(beforeTries, hereTries, 4, 0.25, 1.69)},
		{"M31", "cenkalti.WithMaxTries(0)", "MaxAttempts: -1", "", nothing, unchanged(beforeNoTries, hereFields(every(time.Second)), tenth, outcome{attempts: exactly(10), gaps: exactly(1), sees: "done"})},
		{"M5", "&cenkalti.ExponentialBackOff{InitialInterval: A, MaxInterval: B, Multiplier: F, RandomizationFactor: R}",
			"Schedule: backoff.Exponential{Initial: A, Max: B, Multiplier: F}, Jitter: backoff.UniformJitter(1-R, 1+R)", "A > 0 and F >= 1. Fields that are not set have the values of M1", nothing,
			failing(beforeExponential, hereGrowing, 5, 0.9, 3.3)},
		{"M6", "&cenkalti.ZeroBackOff{}", "Schedule: backoff.Constant(0)", "", nothing, failing(beforeZero, hereZero, 5, 0, 0)},
		{"M7", "cenkalti4.WithMaxRetries(b, N)", "MaxAttempts: N + 1", "", justWhy, failing(beforeRetries, hereRetries, 4, 1, 1)},
		{"M32", "cenkalti4.Retry(f, b)", "policy.Do(ctx, f)", "", "f gets the context. " + justWhy, failing(beforeRetries, hereRetries, 4, 1, 1)},
		{"M33", "cenkalti4.WithContext(b, ctx)", "policy.Do(ctx, f)", "", justWhy,
			move{script: down, deadline: 5 * time.Second, before: before4Context, here: hereFields(every(2 * time.Second)),
				was:    outcome{attempts: exactly(3), gaps: exactly(2), after: exactly(1), sees: "deadline"},
				is:     outcome{attempts: exactly(3), gaps: exactly(2), sees: "last failure, deadline"},
				better: []reason{noLastWait, saysWhy}}},
		{"M8", "return cenkalti.Permanent(err)", "return backoff.Permanent(err)", "policy may have the Classify of M30", "The loops around this one end, too",
			unchanged(beforePermanent, hereFinal, down, outcome{attempts: exactly(1), sees: "last failure"})},
		{"M9", "cenkalti.WithNotify(f)", "Observer: func(_ context.Context, e backoff.Event) { if e.Kind == backoff.EventRetry { f(e.Err, e.Wait) } }", "", "The observer is also called for the end of the call",
			failing(beforeNotify, hereHook, 3, 0.25, 1.13)},
		{"M10", "for range ticker.C {", "for range run.Attempts() {", "ticker is a cenkalti.Ticker, and its schedule that of policy. run is policy.Start(ctx), and a failure goes to run.Fail(err)",
			"A wait begins when the attempt has ended, and not when it began. The loop ends with ctx",
			move{script: append(times(3, answer{err: errDown, took: 2 * time.Second}), answer{}), before: beforeTicker, here: hereTicker,
				was: outcome{attempts: exactly(4), gaps: exactly(0), sees: "done"}, is: outcome{attempts: exactly(4), gaps: exactly(1), sees: "done"}, better: []reason{slowIsSpaced}}},
		{"M11", "return cenkalti.RetryAfter(N)", "return backoff.RetryAfter(err, N*time.Second)", "In v7 the arguments are a time.Duration and err", "The wait is up to a tenth longer, by chance, and the schedule goes on where it was",
			move{script: []answer{{err: errDown, after: 30 * time.Second}, {}}, before: beforeRetryAfter, here: hereAfter,
				was: outcome{attempts: exactly(2), gaps: exactly(30), sees: "done"}, is: outcome{attempts: exactly(2), gaps: [2]float64{30, 33}, sees: "done"}, better: []reason{spreads}}},
	}},
	{"avast/retry-go", []rule{
		{"M12", "avast.Attempts(N)", "MaxAttempts: N", "N > 0. Without the option it is 10", justWhy, failing(beforeAvast, hereAvast, 5, 1, 8.1)},
		{"M34", "avast.Attempts(0)", "MaxAttempts: -1", "", nothing, unchanged(beforeAvastZero, hereFields(every(100*time.Millisecond)), tenth, outcome{attempts: exactly(10), gaps: exactly(0.1), sees: "done"})},
		{"M35", "avast.UntilSucceeded()", "MaxAttempts: -1", "", nothing, unchanged(beforeAvastForEver, hereFields(every(100*time.Millisecond)), tenth, outcome{attempts: exactly(10), gaps: exactly(0.1), sees: "done"})},
		{"M13", "avast.Delay(D)", "Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: backoff.AddedJitter(100 * time.Millisecond)", "There is no DelayType and no MaxJitter. Without the option D is 100 ms", nothing,
			failing(beforeAvast, hereAvast, 5, 1, 8.1)},
		{"M14", "avast.Delay(D), avast.DelayType(avast.FixedDelay)", "Schedule: backoff.Constant(D), Jitter: backoff.NoJitter", "", nothing, failing(beforeAvastFixed, hereAvastFixed, 10, 1, 1)},
		{"M36", "avast.MaxJitter(J)", "Jitter: backoff.AddedJitter(J)", "There is no DelayType", nothing, failing(beforeAvastJitter, hereFields(avastJitter()), 5, 1, 10)},
		{"M15", "avast.MaxDelay(B)", "MaxDelay: B", "", nothing, failing(beforeAvastMax, hereAvastMax, 5, 1, 3)},
		{"M16", "avast.RetryIf(f)", "Classify: backoff.RetryIf(f)", "", "Errors that are marked unrecoverable stay so",
			unchanged(beforeAvastRetryIf, hereAvastRetryIf, []answer{{err: errBusy}, {err: errBusy}, {err: errDown}}, outcome{attempts: exactly(3), gaps: [2]float64{0.1, 0.3}, sees: "last failure"})},
		{"M17", "return avast.Unrecoverable(err)", "return backoff.Permanent(err)", "err is not nil", "The loops around this one end, too",
			unchanged(beforeAvastFinal, hereFinal, down, outcome{attempts: exactly(1), sees: "last failure"})},
		{"M37", "avast.Context(ctx)", "policy.Do(ctx, r.call)", "r.call is the function that avast.Do gets, with a context", justWhy, avastEnds},
		{"M38", "avast.LastErrorOnly(true)", "", "Without it the error lists those of all attempts, which an Observer can collect", justWhy, avastEnds},
		{"M68", "avast.DelayType(func(_ uint, err error, _ *avast.Config) time.Duration { if errors.Is(err, X) { return E } return D })",
			"Schedule: backoff.Constant(D), ByClass: map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Schedule: backoff.Constant(E)}}, Jitter: backoff.NoJitter",
			"Classify is that of M61. In v5 the last argument is a DelayContext", nothing, delayedByError(beforeDelayType)},
		{"M61", "avast.AttemptsForError(N, X)", "ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: N}}",
			"Classify returns ClassThrottled for X, and for nothing else, as [there](#a-limit-for-one-kind-of-error)", "All attempts of the call count, and not only those that failed with X",
			failing(beforeErrorLimit, hereFields(limitedByClass()), 2, 0.1, 0.1).failingWith(errBusy)},
		{"M39", "avast.OnRetry(f)", "Observer: func(_ context.Context, e backoff.Event) { if e.Kind == backoff.EventRetry { f(uint(e.Attempt-1), e.Err) } }", "", "f is not called after the last failure, which no retry follows",
			failing(beforeAvastHook, hereAvastHook, 3, 0.1, 0.3)},
	}},
	{"sethvargo/go-retry", []rule{
		{"M46", "return sethvargo.RetryableError(err)", "return backoff.WithClass(err, backoff.ClassRetryable)", "policy has Classify: func(error) backoff.Class { return backoff.ClassPermanent }", nothing,
			unchanged(beforeSethvargoMark, hereSethvargoMark, []answer{{err: errBusy}, {err: errDown}}, outcome{attempts: exactly(2), gaps: exactly(1), sees: "last failure"})},
		{"M40", "sethvargo.WithMaxRetries(N, b)", "MaxAttempts: N + 1", "", justWhy, failing(beforeSethvargo, hereFields(sethvargos()), 5, 0.8, 3)},
		{"M45", "sethvargo.WithMaxDuration(E, b)", "MaxElapsed: E, ShortenLastWait: true", "", "The time counts from the start of the call, and not from the moment when b was made", sethvargosTime},
		{"M44", "sethvargo.NewConstant(D)", "Schedule: backoff.Constant(D), Jitter: backoff.NoJitter", "There is no jitter around it", nothing, sethvargosTime},
		{"M41", "sethvargo.NewExponential(D)", "Schedule: backoff.Exponential{Initial: D, Max: -1}", "Without a jitter around it, Jitter: backoff.NoJitter", nothing, failing(beforeSethvargo, hereFields(sethvargos()), 5, 0.8, 3)},
		{"M42", "sethvargo.WithJitterPercent(P, b)", "Jitter: backoff.UniformJitter(1-P/100.0, 1+P/100.0)", "0 < P <= 100", nothing, failing(beforeSethvargo, hereFields(sethvargos()), 5, 0.8, 3)},
		{"M71", "sethvargo.WithFullJitter(b)", "Jitter: backoff.FullJitter", "It is the default here, and may be left out", nothing,
			failing(beforeSethvargoFullJitter, hereFields(sethvargosFullJitter()), 5, 0, 8)},
		{"M72", "sethvargo.WithJitter(J, b)", "Jitter: func(delay, _ time.Duration, u float64) time.Duration { return delay - J + time.Duration(u*float64(2*J)) }",
			"A negative wait counts as 0, there and here", nothing, failing(beforeSethvargoJitter, hereFields(sethvargosJitter()), 5, 2, 25)},
		{"M73", "sethvargo.NewFibonacci(D)", "Schedule: backoff.ScheduleFunc(func(retry int) time.Duration { a, b := D, 2*D for range retry - 1 { a, b = b, min(a+b, time.Hour) } return a })",
			"Without a jitter around it, Jitter: backoff.NoJitter", "No delay is longer than an hour", failing(beforeSethvargoFibonacci, hereFields(sethvargosFibonacci()), 6, 1, 8)},
		{"M43", "sethvargo.WithCappedDuration(B, b)", "MaxDelay: B", "It is outside the jitter. Within it, it is the Max of the schedule", nothing, failing(beforeSethvargo, hereFields(sethvargos()), 5, 0.8, 3)},
	}},
	{"failsafe-go", []rule{
		{"M47", "WithMaxAttempts(N)", "MaxAttempts: N", "N > 0, or -1. Without the option it is 3", justWhy, failing(beforeFailsafe(failsafeBackoff), hereFields(failsafesBackoff()), 5, 0.8, 3.6)},
		{"M48", "WithMaxRetries(N)", "MaxAttempts: N + 1", "N >= 0; -1 stays -1", justWhy, failing(beforeFailsafe(failsafeDelay), hereFields(failsafesDelay()), 5, 1, 1)},
		{"M49", "WithDelay(D)", "Schedule: backoff.Constant(D), Jitter: backoff.NoJitter", "Without WithDelay and WithBackoff D is 0", nothing, failing(beforeFailsafe(failsafeDelay), hereFields(failsafesDelay()), 5, 1, 1)},
		{"M50", "WithBackoff(A, B)", "Schedule: backoff.Exponential{Initial: A, Max: B}", "Without WithJitterFactor, Jitter: backoff.NoJitter", nothing, failing(beforeFailsafe(failsafeBackoff), hereFields(failsafesBackoff()), 5, 0.8, 3.6)},
		{"M51", "WithJitterFactor(R)", "Jitter: backoff.UniformJitter(1-R, 1+R)", "0 < R <= 1", nothing, failing(beforeFailsafe(failsafeBackoff), hereFields(failsafesBackoff()), 5, 0.8, 3.6)},
		{"M69", "WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration { if errors.Is(e.LastError(), X) { return E } return D })",
			"Schedule: backoff.Constant(D), ByClass: map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Schedule: backoff.Constant(E)}}, Jitter: backoff.NoJitter",
			"Classify is that of M61", nothing, delayedByError(beforeFailsafe(failsafeDelayFunc))},
		{"M70", "WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration { return after(e.LastError()) })", "return backoff.RetryAfter(err, after(err))",
			"after reads from an error how long to wait. avast's DelayType moves likewise", "The wait is up to a tenth longer, by chance. MaxRetryAfter limits it",
			move{script: []answer{{err: errDown, after: 30 * time.Second}, {}}, before: beforeFailsafe(failsafeNamedDelay), here: hereNamedDelay,
				was: outcome{attempts: exactly(2), gaps: exactly(30), sees: "done"}, is: outcome{attempts: exactly(2), gaps: [2]float64{30, 33}, sees: "done"}, better: []reason{spreads}}},
		{"M63", "&http.Client{Transport: failsafehttp.NewRoundTripper(r, retry), Timeout: D}", "&http.Client{Transport: &backoffhttp.Transport{Base: r, Policy: policy}, Timeout: D}",
			"r is the transport below, or nil. POST and PATCH as in M29", "Nothing: Timeout limits the whole call, with all attempts and waits. AttemptTimeout limits one attempt",
			unchanged(beforeClientOfTransport, hereClientOfTransport, []answer{{status: 503}, {took: time.Minute}}, outcome{attempts: exactly(2), gaps: exactly(1), sees: "deadline"})},
		{"M52", "WithMaxDuration(E)", "MaxElapsed: E, ShortenLastWait: true", "", justWhy, failsafesTime},
		{"M53", "AbortOnErrors(X)", "Classify = backoff.RetryIf(func(err error) bool { return !errors.Is(err, X) })", "", nothing,
			unchanged(beforeFailsafe(failsafeAbort), hereFields(failsafesAbort()), []answer{{err: errBusy}, {err: errDown}}, outcome{attempts: exactly(2), gaps: exactly(1), sees: "last failure"})},
		{"M54", "HandleErrors(X)", "Classify = backoff.RetryIf(func(err error) bool { return errors.Is(err, X) })", "", nothing,
			unchanged(beforeFailsafe(failsafeHandle), hereFields(failsafesHandle()), []answer{{err: errBusy}, {err: errDown}}, outcome{attempts: exactly(2), gaps: exactly(1), sees: "last failure"})},
	}},
	{"go-retryablehttp", []rule{
		{"M22", "c.HTTPClient = client", "backoffhttp.WrapClient(client, policy)", "It replaces c.StandardClient(). The Timeout of client stays that of one attempt", "A redirect has attempts of its own",
			move{script: times(1, answer{took: time.Minute}), before: beforeTimeout, here: hereTimeout,
				was:    outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline"},
				is:     outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline, limit"},
				better: []reason{saysWhy}}},
		{"M29", "c.StandardClient()", "Idempotency: backoff.Idempotent", "The service may get each request of the client twice, POST and PATCH too. go-retryablehttp does not ask. If it may not, leave the field out", "Without the field a POST or PATCH is sent once",
			unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"})},
		{"M18", "c.RetryMax = N", "MaxAttempts: N + 1", "The client moves by M22", nothing,
			unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"})},
		{"M19", "c.RetryWaitMin, c.RetryWaitMax = A, B", "Schedule: backoff.Exponential{Initial: A, Max: B}, Jitter: backoff.NoJitter", "There is no Backoff", "Retry-After counts with every status, and is spread",
			unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"})},
		{"M20", "c.Backoff = retryablehttp.LinearJitterBackoff", "Schedule: backoff.Linear{Initial: A, Step: A, Max: -1}, Jitter: backoff.UniformJitter(1, float64(B)/float64(A))", "B > A > 0", "Retry-After counts",
			unchanged(beforeLinear, hereLinear, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 8}, sees: "500"})},
		{"M55", "if err == nil && resp.StatusCode == S { return true, nil }", "if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == S { return backoff.ClassRetryable }",
			"S >= 400. It is in a CheckRetry that ends with return retryablehttp.DefaultRetryPolicy(ctx, resp, err). That becomes Classify, and ends with return backoff.ClassUnknown", nothing,
			unchanged(beforeCheck, hereCheck, []answer{{status: 412}, {status: 503}, {status: 412}, {status: 404}}, outcome{attempts: exactly(4), gaps: exactly(1), sees: "404"})},
		{"M21", "c.ErrorHandler = retryablehttp.PassthroughErrorHandler", "", "The client moves by M22. Without the handler, backoffhttp.Check(resp) makes the error", nothing,
			unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"})},
		{"M56", "c.ErrorHandler = retryablehttp.PassthroughErrorHandler", "retry := plug.RetryableHTTP(&policy) c.CheckRetry, c.Backoff = retry.CheckRetry, retry.Backoff c.ErrorHandler, c.RetryMax = retry.KeepResponse, retry.RetryMax()",
			"Something needs a *retryablehttp.Client, which therefore stays. Without the handler take retry.ErrorHandler", "Retry-After counts with every status, and is spread",
			unchanged(beforeCheck, hereKeptClient, []answer{{status: 412}, {status: 503}, {status: 412}, {status: 404}}, outcome{attempts: exactly(4), gaps: exactly(1), sees: "404"})},
	}},
	{"Loops and polls", []rule{
		{"M23", "for range N { if err = f(ctx); err == nil { break } time.Sleep(D) }", "MaxAttempts: N, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter", "", "The loop ends with ctx, and does not sleep after its last attempt",
			move{script: down, before: beforeSleep, here: hereSleep,
				was:    outcome{attempts: exactly(5), gaps: exactly(1), after: exactly(1), sees: "last failure"},
				is:     outcome{attempts: exactly(5), gaps: exactly(1), sees: "last failure, limit"},
				better: []reason{noLastWait, saysWhy}}},
		{"M64", "for range N { if resp, err = client.Do(req); err == nil && resp.StatusCode < 500 { break } time.Sleep(D) }", "client = backoffhttp.WrapClient(client, policy)",
			"policy is that of M23. It happens once, where client is made, and one client.Do(req) stays of the loop. POST and PATCH as in M29", "The Timeout of client stays that of one attempt. 429 is retried, too, and Retry-After counts",
			move{script: times(1, answer{took: time.Minute}), before: beforeClientInALoop, here: hereClientInALoop,
				was:    outcome{attempts: exactly(3), gaps: exactly(1), after: exactly(1), sees: "deadline"},
				is:     outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline, limit"},
				better: []reason{noLastWait, saysWhy}}},
		{"M67", "wait := b.NextBackOff() if wait == cenkalti.Stop { return err } sleep(wait)", "wait, again := run.Retry(err) if !again { return run.Err() } sleep(wait)",
			"A test replaces sleep. b is made by policy.Start(ctx) now, and is run. if err == nil { return nil } goes", nothing,
			unchanged(beforeSleeper, hereSleeper, append(times(3, answer{err: errDown}), answer{}), outcome{attempts: exactly(4), gaps: [2]float64{0.25, 1.69}, sees: "done"})},
		{"M24", "for { ok, err := f(C) if err != nil { return err } if ok { return nil } time.Sleep(D) }", "poll.Until(ctx, policy, f)", "policy has MaxAttempts: 1, MaxElapsed: -1, Schedule: backoff.Constant(D) and Jitter: backoff.NoJitter", "The loop ends with ctx, which replaces C",
			move{script: append(times(3, answer{state: "pending"}), answer{state: "done"}), before: beforeSleepyPoll, here: hereSleepyPoll,
				was: outcome{attempts: exactly(4), gaps: exactly(2), sees: "done"}}},
		{"M27", "stop := make(chan struct{})", "ctx, stop := context.WithCancel(P)", "stop is closed to end the loop, and no value is sent. P is the context around it, close(stop) becomes stop(), and case <-stop goes with the loop", "The error matches context.Canceled, too",
			move{script: down, cancel: 2500 * time.Millisecond, before: beforeStop, here: hereStop,
				was:    outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure"},
				is:     outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure, cancelled"},
				better: []reason{saysWhy}}},
		{"M66", "case <-stop: return err", "ctx, cancel := context.WithCancel(P) defer cancel() go func() { select { case <-stop: cancel() case <-ctx.Done(): } }()",
			"stop is a channel that the function gets, and the code is at its top. P is the context around it. Otherwise as M27", "The error matches context.Canceled, too",
			move{script: down, cancel: 2500 * time.Millisecond, before: beforeStopGiven, here: hereStopGiven,
				was:    outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure"},
				is:     outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure, cancelled"},
				better: []reason{saysWhy}}},
		{"M26", `return errors.New(S)`, `return false, fmt.Errorf("%s: %w", S, poll.ErrNotYet)`, "In a function for cenkalti.Retry that waits until something is done. It becomes a check for poll.Until, and the options become fields by M2 to M5. return nil becomes return true, nil, and any other error E becomes false, E", "There is a last check at the limit. Budgets, breakers and observers get an answer, and not of a failure",
			move{script: times(1, answer{state: "pending"}), limit: 11 * time.Second, before: beforeRetriedPoll, here: hereRetriedPoll,
				was:    outcome{attempts: exactly(6), gaps: exactly(2), sees: "last failure"},
				is:     outcome{attempts: exactly(7), gaps: [2]float64{1, 2}, sees: "last failure, limit"},
				better: []reason{lastLook, saysWhy}}},
		{"M25", "wait.PollUntilContextTimeout(ctx, D, E, true, f)", "poll.Until(ctx, policy, f)", "policy is that of M24 without MaxElapsed, and ctx becomes one with a timeout of E", "The interval begins when a look has ended. The poll ends when no further look fits in",
			move{script: times(1, answer{state: "pending"}), before: beforeWait, here: herePoll,
				was:    outcome{attempts: exactly(6), gaps: exactly(2), after: exactly(1), sees: "deadline"},
				is:     outcome{attempts: exactly(6), gaps: exactly(2), sees: "deadline"},
				better: []reason{noLastWait}}},
		{"M57", "waiter.Wait(ctx, input, E)", "poll.Until(ctx, policy, f)", "waiter is one of an AWS SDK. f makes its call with input, and returns what Retryable decides. policy has MaxAttempts: 1 and MaxElapsed: E", "There is a last check at the limit",
			unchanged(beforeWaiter, hereWaiter, append(times(3, answer{state: "missing"}), answer{state: "done"}), outcome{attempts: exactly(4), gaps: exactly(2), sees: "done"})},
		{"M58", "o.MinDelay, o.MaxDelay = D, D", "Schedule: backoff.Constant(D), Jitter: backoff.NoJitter", "o are the options of a waiter of M57. If they differ, it is M74", nothing,
			unchanged(beforeWaiter, hereWaiter, append(times(3, answer{state: "missing"}), answer{state: "done"}), outcome{attempts: exactly(4), gaps: exactly(2), sees: "done"})},
		{"M74", "o.MinDelay, o.MaxDelay = A, B", "Schedule: backoff.Exponential{Initial: A, Max: B}, Jitter: func(delay, _ time.Duration, u float64) time.Duration { return A + time.Duration(u*float64(delay-A)) }",
			"o are the options of a waiter of M57. What is not set is 5 s, and 120 s for most waiters. The usual jitter is simpler: leave Jitter out, and a wait is at least half the delay", "There is a last check at the limit",
			unchanged(beforeGrowingWaiter, hereGrowingWaiter, append(times(4, answer{state: "missing"}), answer{state: "done"}), outcome{attempts: exactly(5), gaps: [2]float64{2, 16}, sees: "done"})},
	}},
}

// TestTheRulesHold runs what each rule replaces and what it makes of it.
func TestTheRulesHold(t *testing.T) {
	before, here := oneLine(read(t, "rules_before_test.go")), oneLine(read(t, "rules_here_test.go"))
	var lines []string
	for _, of := range rules {
		lines = append(lines, "", "### Rules: "+of.library, "", "| Rule | Before | Here | Holds if | What changes |", "|---|---|---|---|---|")
		for _, r := range of.rules {
			t.Run(r.id, func(t *testing.T) {
				require.Contains(t, before, oneLine(r.from), "no test runs it")
				require.Contains(t, here, oneLine(r.to), "no test runs it")
				r.check(t)
			})
			lines = append(lines, "| "+strings.Join([]string{r.id, "`" + r.from + "`", code(r.to), r.when, r.changes}, " | ")+" |")
		}
	}
	compareTable(t, "rules", strings.Join(lines, "\n")+"\n\n")
}

// code writes what takes the place of something, which may be nothing.
func code(text string) string {
	if text == "" {
		return "–"
	}
	return "`" + text + "`"
}

// oneLine writes code without line breaks, and without the commas before them.
func oneLine(code string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(code), " "), ", }", " }")
}
