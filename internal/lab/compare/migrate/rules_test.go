package migrate

import (
	"context"
	"crypto/x509"
	"regexp"
	"strings"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v4"
	cenkalti "github.com/cenkalti/backoff/v5"
	dskit "github.com/grafana/dskit/backoff"
	jpillora "github.com/jpillora/backoff"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

var down = times(1, answer{err: errDown})

// failing are calls that fail for ever, and end with an error that says why.
func failing(before, here form, attempts, least, most float64) move {
	was := outcome{attempts: exactly(attempts), gaps: [2]float64{least, most}, sees: "last failure"}
	is := was
	is.sees = "last failure, limit"
	return move{script: down, before: before, here: here, was: was, is: is}
}

// answered are the same calls with another script.
func (m move) answered(script ...answer) move {
	m.script = script
	return m
}

// ended are the same calls with a deadline after two and a half waits.
func (m move) ended() move {
	m.deadline = 5 * D / 2
	m.was = outcome{attempts: exactly(3), gaps: exactly(1), after: exactly(0.5), sees: "deadline"}
	m.is = outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure, deadline"}
	return m
}

// stopped are the same calls, cancelled after two and a half waits.
func (m move) stopped() move {
	m.cancel = 5 * D / 2
	m.was.attempts, m.is.attempts, m.is.sees = exactly(3), exactly(3), "last failure, cancelled"
	return m
}

// same are calls that do the same before and here.
func same(before, here form, script []answer, attempts, least, most float64, sees string) move {
	return move{script: script, before: before, here: here, was: outcome{attempts: exactly(attempts), gaps: [2]float64{least, most}, sees: sees}}
}

var (
	finalErrors = []answer{{err: x509.UnknownAuthorityError{}}, {err: noSuchName}, {err: context.Canceled}, {err: context.DeadlineExceeded}, {err: &backoffhttp.StatusError{Code: 404}}, {}}

	tenth    = append(times(9, answer{err: errDown}), answer{})
	thenBusy = []answer{{err: errDown}, {err: errBusy}}
	thenDown = []answer{{err: errBusy}, {err: errDown}}
	byTurns  = []answer{{err: errBusy}, {err: errDown}, {err: errBusy}, {}}
	hurdles  = []answer{{status: S}, {status: 503}, {status: S}, {status: 404}}
	slowDown = answer{err: errDown, took: 200 * time.Millisecond}
	asksWait = []answer{{err: errDown, after: 30 * time.Second}, {}}
	found    = append(times(3, answer{state: "missing"}), answer{state: "done"})
)

// Calls that more than one rule needs.
var (
	tries     = cenkaltis(cenkalti.WithMaxTries(N))
	hereTries = here(backoff.Policy{MaxAttempts: N, Schedule: cenkaltisDefault.Schedule, Jitter: cenkaltisDefault.Jitter})
	shortened = here(backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter, MaxElapsed: E, ShortenLastWait: true})
)

// spread are calls whose server asks for 30 s.
func spread(before, here form) move {
	return move{script: asksWait, before: before, here: here,
		was: outcome{attempts: exactly(2), gaps: exactly(30), sees: "done"}, is: outcome{attempts: exactly(2), gaps: [2]float64{30, 33}, sees: "done"}}
}

// rules are those of the documents, by their ids.
var rules = map[string]move{
	// All libraries.
	"M30": same(beforeCall, here(with(cenkaltisDefault, everyError)), finalErrors, 6, 0.25, 3.8, "done"),
	"M28": same(looking(tries, beforeCompared), looking(hereTries, hereCompared), times(1, answer{err: X}), N, 0.25, 1.69, "busy"),
	// cenkalti/backoff.
	"M1": {script: down, deadline: 5 * time.Minute, before: beforeCall, here: hereCall,
		was: outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, after: [2]float64{0, 90}, sees: "deadline"},
		is:  outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, sees: "last failure, deadline"}},
	"M2 M3 M62": failing(cenkaltis(cenkalti.WithBackOff(cenkalti.NewConstantBackOff(D)), cenkalti.WithMaxElapsedTime(E)),
		here(backoff.Policy{MaxAttempts: -1, MaxElapsed: E, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}), 11, 1, 1),
	"M4":  failing(tries, hereTries, N, 0.25, 1.69),
	"M31": same(cenkaltis(cenkalti.WithBackOff(cenkalti.NewConstantBackOff(D)), cenkalti.WithMaxTries(0)), here(constant), tenth, 10, 1, 1, "done"),
	"M5": failing(
		cenkaltis(cenkalti.WithMaxTries(N), cenkalti.WithBackOff(&cenkalti.ExponentialBackOff{InitialInterval: A, MaxInterval: B, Multiplier: F, RandomizationFactor: R})),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: A, Max: B, Multiplier: F}, Jitter: backoff.UniformJitter(1-R, 1+R)}), N, 0.9, 3.3),
	"M6": failing(cenkaltis(cenkalti.WithMaxTries(N), cenkalti.WithBackOff(&cenkalti.ZeroBackOff{})),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Constant(0)}), N, 0, 0),
	"M7 M32": failing(before4, hereRetries, N+1, 1, 1),
	"M33":    failing(before4, hereRetries, 3, 1, 1).ended(),
	"M88":    failing(beforeNotify4, hereNotify4, N+1, 1, 1),
	"M89":    failing(beforeData4, hereData, N+1, 1, 1),
	"M8":     same(cenkaltiOf(cenkaltiPermanentError), hereMarked(with(cenkaltisDefault, everyError), herePermanentError), down, 1, 0, 0, "last failure"),
	"M9":     failing(beforeNotify, hereHook, 3, 0.25, 1.13),
	"M11":    spread(cenkaltiOf(cenkaltiRetryAfterError), hereMarked(cenkaltisDefault, hereRetryAfterError)),
	// avast/retry-go.
	"M12 M13": failing(avasts(avast.Attempts(N), avast.Delay(D)),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: added(100 * time.Millisecond)}), N, 1, 4.1),
	"M34": same(avasts(avast.Attempts(0), avast.Delay(D), avast.DelayType(avast.FixedDelay)), here(constant), tenth, 10, 1, 1, "done"),
	"M35": same(avasts(avast.UntilSucceeded(), avast.Delay(D), avast.DelayType(avast.FixedDelay)), here(constant), tenth, 10, 1, 1, "done"),
	"M14": failing(avasts(avast.Delay(D), avast.DelayType(avast.FixedDelay)),
		here(backoff.Policy{MaxAttempts: 10, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}), 10, 1, 1),
	"M15": failing(avasts(avast.Attempts(N), avast.Delay(D), avast.MaxDelay(B)),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: avastsDefault.Jitter, MaxDelay: B}), N, 1, 3),
	"M16":     same(beforeAvastRetryIf, hereAvastRetryIf, []answer{{err: errBusy}, {err: errBusy}, {err: errDown}}, 3, 0.1, 0.3, "last failure"),
	"M17":     same(beforeAvastFinal, hereMarked(constant, herePermanentError), down, 1, 0, 0, "last failure"),
	"M37 M38": failing(avasts(avast.Delay(D), avast.DelayType(avast.FixedDelay), avast.LastErrorOnly(true)), here(constant), 3, 1, 1).ended(),
	"M68":     same(avasts(avastDelay()), here(delayedByClass()), byTurns, 4, 1, 10.5, "done"),
	"M61":     failing(avasts(avast.Delay(D), avast.DelayType(avast.FixedDelay), avast.AttemptsForError(N, X)), here(with(constant, limitedByClass)), N, 1, 1).answered(answer{err: X}),
	"M39":     failing(beforeAvastHook, hereAvastHook, 3, 0.1, 0.3),
	// sethvargo/go-retry.
	"M46": same(beforeSethvargoMark, hereSethvargoMark, thenDown, 2, 1, 1, "last failure"),
	"M40 M41 M42 M43": failing(sethvargos(sethvargoCapped), here(backoff.Policy{MaxAttempts: N + 1,
		Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: backoff.UniformJitter(1-P/100.0, 1+P/100.0), MaxDelay: B}), N+1, 0.8, 3),
	"M44 M45": failing(sethvargos(sethvargoTime), shortened, 10, 0.7, 1).answered(slowDown),
	"M71": failing(sethvargos(sethvargoFull),
		here(backoff.Policy{MaxAttempts: N + 1, Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: backoff.FullJitter}), N+1, 0, 8),
	"M73": failing(sethvargos(sethvargoFibonaccis), here(sethvargosFibonacci()), N+1, 1, 5),
	// failsafe-go.
	"M47 M50 M51": failing(failsafes(failsafeBuilder().WithMaxAttempts(N).WithBackoff(A, B).WithJitterFactor(R)),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: A, Max: B}, Jitter: backoff.UniformJitter(1-R, 1+R)}), N, 0.9, 3.3),
	"M75":     same(failsafes(failsafeUnlimited().WithDelay(D)), here(unlimited()), tenth, 10, 1, 1, "done"),
	"M48 M49": failing(failsafes(failsafeBuilder().WithMaxRetries(N).WithDelay(D)), hereRetries, N+1, 1, 1),
	"M69":     same(failsafes(failsafeDelayFunc().WithMaxAttempts(10)), here(delayedByClass()), byTurns, 4, 1, 10.5, "done"),
	"M63":     same(beforeClientOfTransport, hereClientOfTransport, []answer{{status: 503}, {took: time.Minute}}, 2, 1, 1, "deadline"),
	"M52":     failing(failsafes(failsafeBuilder().WithMaxAttempts(-1).WithDelay(D).WithMaxDuration(E)), shortened, 10, 0.7, 1).answered(slowDown),
	"M53":     same(failsafes(failsafeBuilder().WithDelay(D).AbortOnErrors(X)), here(with(constant, abortOnX)), thenBusy, 2, 1, 1, "last failure"),
	"M54":     same(failsafes(failsafeBuilder().WithDelay(D).HandleErrors(X)), here(with(constant, handleX)), thenDown, 2, 1, 1, "last failure"),
	// go-retryablehttp.
	"M22": {script: times(1, answer{took: time.Minute}), before: retryables(shortClient), here: hereTimeout,
		was: outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline"},
		is:  outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline, limit"}},
	"M18 M19 M21 M29": same(retryables(retryMax),
		hereHTTP(backoff.Policy{MaxAttempts: N + 1, Schedule: backoff.Exponential{Initial: A, Max: B}, Jitter: backoff.NoJitter, Idempotency: backoff.Idempotent}),
		times(1, answer{status: 500}), N+1, 1, 3, "500"),
	"M55": same(retryables(retriesOne), hereHTTP(with(constant, checked)), hurdles, 4, 1, 1, "404"),
	"M56": same(retryables(retriesOne), hereKeptClient, hurdles, 4, 1, 1, "404"),
	// Loops and polls.
	"M23": {script: down, before: beforeSleep, here: here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}),
		was: outcome{attempts: exactly(N), gaps: exactly(1), after: exactly(1), sees: "last failure"},
		is:  outcome{attempts: exactly(N), gaps: exactly(1), sees: "last failure, limit"}},
	"M64": {script: times(1, answer{took: time.Minute}), before: beforeClientInALoop, here: hereClientInALoop,
		was: outcome{attempts: exactly(N), gaps: exactly(1), after: exactly(1), sees: "deadline"},
		is:  outcome{attempts: exactly(N), gaps: exactly(1), sees: "deadline, limit"}},
	"M24": same(beforeSleepyPoll, herePoll(backoff.Policy{MaxAttempts: 1, MaxElapsed: -1, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}), found, 4, 1, 1, "done"),
	"M66": failing(beforeStopGiven, hereStopGiven, 3, 1, 1).stopped(),
	"M74": failing(loopOf(ownLoop), loopOf(hereLoop), 3, 1, 1).ended(),
	// dskit and jpillora.
	"M76 M77 M78 M79 M80 M81": {script: down,
		before: dskits(dskit.Config{MinBackoff: A, MaxBackoff: B4, MaxRetries: N}),
		here:   hereRanged(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: 2 * A, Max: B4}, Jitter: backoff.EqualJitter}),
		was:    outcome{attempts: exactly(N), gaps: [2]float64{1, 4}, sees: "another error"},
		is:     outcome{attempts: exactly(N), gaps: [2]float64{1, 4}, sees: "last failure, limit"}},
	"M82 M83 M85": same(jpilloras(&jpillora.Backoff{Min: A, Max: B, Factor: F}),
		hereSleeping(backoff.Policy{MaxAttempts: -1, Schedule: backoff.Exponential{Initial: A, Max: B, Multiplier: F}, Jitter: backoff.NoJitter}), tenth, 10, 1, 3, "done"),
	"M84": same(jpilloras(&jpillora.Backoff{Min: A, Max: B, Jitter: true}), hereSleeping(jpilloraJitter()), tenth, 10, 1, 3, "done"),
}

var ruleRow = regexp.MustCompile("(?m)^\\| (M\\d+) \\| `(.+?)` \\| (?:`(.+?)`|–) \\|")

// TestTheRulesHold runs what each rule of the documents replaces, and what it makes of it.
func TestTheRulesHold(t *testing.T) {
	code := oneLine(written(t, "*loops*_test.go", "rules_*test.go"))
	rows := map[string][]string{}
	for _, row := range ruleRow.FindAllStringSubmatch(written(t, pages...), -1) {
		require.NotContains(t, rows, row[1], "it is in the documents twice")
		rows[row[1]] = row
	}
	for ids, m := range rules {
		t.Run(ids, func(t *testing.T) {
			for _, id := range strings.Fields(ids) {
				require.Contains(t, rows, id)
				require.Contains(t, code, oneLine(rows[id][2]), "no test runs it")
				require.Contains(t, code, oneLine(strings.ReplaceAll(rows[id][3], `\|`, "|")), "no test runs it")
				delete(rows, id)
			}
			m.check(t)
		})
	}
	require.Empty(t, rows, "no test runs them")
}

// oneLine writes code without line breaks, and without the commas before them.
func oneLine(code string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(code), " "), ", }", " }")
}
