package migrate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// unchanged are calls of which nothing differs.
func unchanged(before, here form, script []answer, expected outcome) move {
	return move{script: script, before: before, here: here, was: expected}
}

var rules = []rule{
	{"M1", "cenkalti.Retry(ctx, f)", "backoff.DoValue(ctx, &policy, f)", "v5 to v7. Without the options below, policy has MaxAttempts: -1, MaxElapsed: 15 * time.Minute, Schedule: " + exponent + " and Jitter: backoff.UniformJitter(0.5, 1.5)",
		"f gets the context. " + justWhy,
		move{script: down, deadline: 5 * time.Minute, before: beforeCall, here: hereCall,
			was:    outcome{attempts: [2]float64{13, 19}, gaps: [2]float64{0.25, 90}, after: [2]float64{0, 90}, sees: "deadline"},
			is:     outcome{attempts: [2]float64{13, 19}, gaps: [2]float64{0.25, 90}, sees: "last failure, deadline"},
			better: []reason{noLastWait, saysWhy}}},
	{"M2", "cenkalti.WithBackOff(cenkalti.NewConstantBackOff(D))", "Schedule: backoff.Constant(D), Jitter: backoff.NoJitter", "", nothing,
		failing(beforeConstant, hereEvery, 21, 3, 3)},
	{"M3", "cenkalti.WithMaxElapsedTime(E)", "MaxElapsed: E", "In v4, b.MaxElapsedTime = E is the same", justWhy,
		failing(beforeConstant, hereEvery, 21, 3, 3)},
	{"M4", "cenkalti.WithMaxTries(N)", "MaxAttempts: N", "N > 0; for 0 it is -1", justWhy,
		failing(beforeTries, hereTries, 4, 0.25, 1.69)},
	{"M5", "&cenkalti.ExponentialBackOff{InitialInterval: A, MaxInterval: B, Multiplier: F, RandomizationFactor: R}",
		"Schedule: backoff.Exponential{Initial: A, Max: B, Multiplier: F}, Jitter: backoff.UniformJitter(1-R, 1+R)", "A > 0 and F >= 1. What is not set has the values of M1", nothing,
		failing(beforeExponential, hereGrowing, 5, 0.9, 3.3)},
	{"M6", "&cenkalti.ZeroBackOff{}", "Schedule: backoff.Constant(0)", "", nothing, failing(beforeZero, hereZero, 5, 0, 0)},
	{"M7", "cenkalti4.WithMaxRetries(b, N)", "MaxAttempts: N + 1", "v4", justWhy, failing(beforeRetries, hereRetries, 4, 1, 1)},
	{"M8", "return cenkalti.Permanent(err)", "return backoff.Permanent(err)", "", "The loops around this one end, too",
		unchanged(beforePermanent, hereFinal, down, outcome{attempts: exactly(1), sees: "last failure"})},
	{"M9", "cenkalti.WithNotify(f)", "Observer: func(_ context.Context, e backoff.Event) { if e.Kind == backoff.EventRetry { f(e.Err, e.Wait) } }", "", "The observer also hears of the end of the call",
		failing(beforeNotify, hereHook, 3, 0.25, 1.13)},
	{"M10", "for range ticker.C {", "for range run.Attempts() {", "ticker is a cenkalti.Ticker, and its schedule that of policy. run is policy.Start(ctx), and a failure goes to run.Fail(err)",
		"A wait begins when the attempt has ended, and not when it began. The loop ends with ctx",
		move{script: append(times(3, answer{err: errDown, took: 2 * time.Second}), answer{}), before: beforeTicker, here: hereTicker,
			was: outcome{attempts: exactly(4), gaps: exactly(0), sees: "done"}, is: outcome{attempts: exactly(4), gaps: exactly(1), sees: "done"}, better: []reason{slowIsSpaced}}},
	{"M11", "return cenkalti.RetryAfter(N)", "return backoff.RetryAfter(err, N*time.Second)", "v5 and v6; in v7 the arguments are a time.Duration and err", "The wait is up to a tenth longer, by chance, and the schedule goes on where it was",
		move{script: []answer{{err: errDown, after: 30 * time.Second}, {}}, before: beforeRetryAfter, here: hereAfter,
			was: outcome{attempts: exactly(2), gaps: exactly(30), sees: "done"}, is: outcome{attempts: exactly(2), gaps: [2]float64{30, 33}, sees: "done"}, better: []reason{spreads}}},
	{"M12", "avast.Attempts(N)", "MaxAttempts: N", "N > 0; for 0 it is -1, and without the option 10", justWhy, failing(beforeAvast, hereAvast, 5, 1, 8.1)},
	{"M13", "avast.Delay(D)", "Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: backoff.AddedJitter(100 * time.Millisecond)", "There is no DelayType. Without the option D is 100 ms", nothing,
		failing(beforeAvast, hereAvast, 5, 1, 8.1)},
	{"M14", "avast.Delay(D), avast.DelayType(avast.FixedDelay)", "Schedule: backoff.Constant(D), Jitter: backoff.NoJitter", "", nothing, failing(beforeAvastFixed, hereAvastFixed, 10, 1, 1)},
	{"M15", "avast.MaxDelay(B)", "MaxDelay: B", "", nothing, failing(beforeAvastMax, hereAvastMax, 5, 1, 3)},
	{"M16", "avast.RetryIf(f)", "Classify: backoff.RetryIf(f)", "", nothing,
		unchanged(beforeAvastRetryIf, hereAvastRetryIf, down, outcome{attempts: exactly(1), sees: "last failure"})},
	{"M17", "return avast.Unrecoverable(err)", "return backoff.Permanent(err)", "", "The loops around this one end, too",
		unchanged(beforeAvastFinal, hereFinal, down, outcome{attempts: exactly(1), sees: "last failure"})},
	{"M18", "c.RetryMax = N", "MaxAttempts: N + 1", "", nothing,
		unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"})},
	{"M19", "c.RetryWaitMin, c.RetryWaitMax = A, B", "Schedule: backoff.Exponential{Initial: A, Max: B}, Jitter: backoff.NoJitter", "There is no Backoff", "Retry-After counts with every status, and is spread",
		unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"})},
	{"M20", "c.Backoff = retryablehttp.LinearJitterBackoff", "Schedule: backoff.Linear{Initial: A, Step: A, Max: -1}, Jitter: backoff.UniformJitter(1, float64(B)/float64(A))", "B > A", "Retry-After counts",
		unchanged(beforeLinear, hereLinear, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 8}, sees: "500"})},
	{"M21", "c.ErrorHandler = retryablehttp.PassthroughErrorHandler", "", "Without the handler, backoffhttp.Check(resp) makes the error", nothing,
		unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"})},
	{"M22", "c.HTTPClient = client", "backoffhttp.WrapClient(client, policy)", "It takes the place of c.StandardClient(). The Timeout of client stays that of one attempt", "A redirect has attempts of its own",
		move{script: times(1, answer{took: time.Minute}), before: beforeTimeout, here: hereTimeout,
			was:    outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline"},
			is:     outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline, limit"},
			better: []reason{saysWhy}}},
	{"M23", "for range N { if err = r.call(ctx); err == nil { break } time.Sleep(D) }", "MaxAttempts: N, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter", "", "The loop ends with ctx, and does not sleep after its last attempt",
		move{script: down, before: beforeSleep, here: hereSleep,
			was:    outcome{attempts: exactly(5), gaps: exactly(1), after: exactly(1), sees: "last failure"},
			is:     outcome{attempts: exactly(5), gaps: exactly(1), sees: "last failure, limit"},
			better: []reason{noLastWait, saysWhy}}},
	{"M24", "for { found, err := f(context.Background())", "poll.Until(ctx, policy, f)", "The loop sleeps for D, and an error ends it. policy has MaxAttempts: 1, MaxElapsed: -1, Schedule: backoff.Constant(D) and Jitter: backoff.NoJitter", "The loop ends with ctx",
		move{script: append(times(3, answer{state: "pending"}), answer{state: "done"}), before: beforeSleepyPoll, here: hereSleepyPoll,
			was: outcome{attempts: exactly(4), gaps: exactly(2), sees: "done"}}},
	{"M25", "wait.PollUntilContextTimeout(ctx, D, E, true, f)", "poll.Until(ctx, policy, f)", "policy is that of M24 without MaxElapsed, and ctx has a timeout of E", "The interval begins when a look has ended. The poll ends as soon as no look fits in",
		move{script: times(1, answer{state: "pending"}), before: beforeWait, here: herePoll,
			was:    outcome{attempts: exactly(6), gaps: exactly(2), after: exactly(1), sees: "deadline"},
			is:     outcome{attempts: exactly(6), gaps: exactly(2), sees: "deadline"},
			better: []reason{noLastWait}}},
	{"M26", `return errors.New("pending")`, `return false, fmt.Errorf("pending: %w", poll.ErrNotYet)`, "In a function for cenkalti.Retry that waits until something is done. It becomes a look for poll.Until, and the options become fields by M2 to M5", "There is a last look at the limit. Budgets, breakers and observers hear of an answer, and not of a failure",
		move{script: times(1, answer{state: "pending"}), limit: 11 * time.Second, before: beforeRetriedPoll, here: hereRetriedPoll,
			was:    outcome{attempts: exactly(6), gaps: exactly(2), sees: "last failure"},
			is:     outcome{attempts: exactly(7), gaps: [2]float64{1, 2}, sees: "last failure, limit"},
			better: []reason{lastLook, saysWhy}}},
	{"M27", "stop := make(chan struct{})", "ctx, stop := context.WithCancel(", "close(stop) becomes stop(), and case <-stop goes", "The error matches context.Canceled, too",
		move{script: down, cancel: 2500 * time.Millisecond, before: beforeStop, here: hereStop,
			was:    outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure"},
			is:     outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure, cancelled"},
			better: []reason{saysWhy}}},
	{"M28", "if err == errBusy {", "if backoff.Cause(err) == errBusy {", "Likewise err.(T) and switch err.(type). errors.Is and errors.As need nothing", nothing,
		unchanged(beforeCompared, hereCompared, times(1, answer{err: errBusy}), outcome{attempts: exactly(3), gaps: [2]float64{0.25, 1.13}, sees: "busy"})},
	{"M29", "c.StandardClient()", "Idempotency: backoff.Idempotent", "The service may get a POST or PATCH twice, which go-retryablehttp does not ask", nothing,
		unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"})},
}

// TestTheRulesHold runs what each rule replaces and what it makes of it.
func TestTheRulesHold(t *testing.T) {
	before, here := oneLine(read(t, "rules_before_test.go")), oneLine(read(t, "rules_here_test.go"))
	lines := []string{"| Rule | Before | Here | Holds if | What changes |", "|---|---|---|---|---|"}
	for _, r := range rules {
		t.Run(r.id, func(t *testing.T) {
			require.Contains(t, before, oneLine(r.from), "no test runs it")
			require.Contains(t, here, oneLine(r.to), "no test runs it")
			r.check(t)
		})
		lines = append(lines, "| "+strings.Join([]string{r.id, "`" + r.from + "`", code(r.to), r.when, r.changes}, " | ")+" |")
	}
	compareTable(t, "rules", strings.Join(lines, "\n")+"\n")
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
