package migrate

import (
	"context"
	"crypto/x509"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
		was: outcome{attempts: exactly(3), gaps: exactly(2), after: exactly(1), sees: "deadline"},
		is:  outcome{attempts: exactly(3), gaps: exactly(2), sees: "last failure, deadline"}}
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

// rules are those of the document, by their ids.
var rules = map[string]move{
	// All libraries.
	"M30": unchanged(beforeCall, hereFields(everyError()), finalErrors, outcome{attempts: exactly(6), gaps: [2]float64{0.25, 3.8}, sees: "done"}),
	"M28": unchanged(beforeCompared, hereCompared, times(1, answer{err: errBusy}), outcome{attempts: exactly(3), gaps: [2]float64{0.25, 1.13}, sees: "busy"}),
	"M59": unchanged(beforeAsserted, hereAsserted, times(1, answer{err: errBroken}), outcome{attempts: exactly(3), gaps: [2]float64{0.25, 1.13}, sees: "read"}),
	"M65": unchanged(beforeLastErr, hereLastErr, times(1, answer{err: errBusy}), outcome{attempts: exactly(3), gaps: [2]float64{0.25, 1.13}, sees: "last failure"}),
	"M60": unchanged(beforeSwitched, hereSwitched, times(1, answer{err: errBroken}), outcome{attempts: exactly(3), gaps: [2]float64{0.25, 1.13}, sees: "read"}),
	// cenkalti/backoff.
	"M1": {script: down, deadline: 5 * time.Minute, before: beforeCall, here: hereCall,
		was: outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, after: [2]float64{0, 90}, sees: "deadline"},
		is:  outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, sees: "last failure, deadline"}},
	"M2":  failing(beforeConstant, hereEvery, 21, 3, 3),
	"M3":  failing(beforeConstant, hereEvery, 21, 3, 3),
	"M62": failing(beforeConstant, hereEvery, 21, 3, 3),
	"M4":  failing(beforeTries, hereTries, 4, 0.25, 1.69),
	"M31": unchanged(beforeNoTries, hereFields(every(time.Second)), tenth, outcome{attempts: exactly(10), gaps: exactly(1), sees: "done"}),
	"M5":  failing(beforeExponential, hereGrowing, 5, 0.9, 3.3),
	"M6":  failing(beforeZero, hereZero, 5, 0, 0),
	"M7":  failing(beforeRetries, hereRetries, 4, 1, 1),
	"M32": failing(beforeRetries, hereRetries, 4, 1, 1),
	"M33": {script: down, deadline: 5 * time.Second, before: before4Context, here: hereFields(every(2 * time.Second)),
		was: outcome{attempts: exactly(3), gaps: exactly(2), after: exactly(1), sees: "deadline"},
		is:  outcome{attempts: exactly(3), gaps: exactly(2), sees: "last failure, deadline"}},
	"M8": unchanged(beforePermanent, hereFinal, down, outcome{attempts: exactly(1), sees: "last failure"}),
	"M9": failing(beforeNotify, hereHook, 3, 0.25, 1.13),
	"M10": {script: append(times(3, answer{err: errDown, took: 2 * time.Second}), answer{}), before: beforeTicker, here: hereTicker,
		was: outcome{attempts: exactly(4), gaps: exactly(0), sees: "done"}, is: outcome{attempts: exactly(4), gaps: exactly(1), sees: "done"}},
	"M11": {script: []answer{{err: errDown, after: 30 * time.Second}, {}}, before: beforeRetryAfter, here: hereAfter,
		was: outcome{attempts: exactly(2), gaps: exactly(30), sees: "done"}, is: outcome{attempts: exactly(2), gaps: [2]float64{30, 33}, sees: "done"}},
	// avast/retry-go.
	"M12": failing(beforeAvast, hereAvast, 5, 1, 8.1),
	"M34": unchanged(beforeAvastZero, hereFields(every(100*time.Millisecond)), tenth, outcome{attempts: exactly(10), gaps: exactly(0.1), sees: "done"}),
	"M35": unchanged(beforeAvastForEver, hereFields(every(100*time.Millisecond)), tenth, outcome{attempts: exactly(10), gaps: exactly(0.1), sees: "done"}),
	"M13": failing(beforeAvast, hereAvast, 5, 1, 8.1),
	"M14": failing(beforeAvastFixed, hereAvastFixed, 10, 1, 1),
	"M36": failing(beforeAvastJitter, hereFields(avastJitter()), 5, 1, 10),
	"M15": failing(beforeAvastMax, hereAvastMax, 5, 1, 3),
	"M16": unchanged(beforeAvastRetryIf, hereAvastRetryIf, []answer{{err: errBusy}, {err: errBusy}, {err: errDown}}, outcome{attempts: exactly(3), gaps: [2]float64{0.1, 0.3}, sees: "last failure"}),
	"M17": unchanged(beforeAvastFinal, hereFinal, down, outcome{attempts: exactly(1), sees: "last failure"}),
	"M37": avastEnds,
	"M38": avastEnds,
	"M68": delayedByError(beforeDelayType),
	"M61": failing(beforeErrorLimit, hereFields(limitedByClass()), 2, 0.1, 0.1).failingWith(errBusy),
	"M39": failing(beforeAvastHook, hereAvastHook, 3, 0.1, 0.3),
	// sethvargo/go-retry.
	"M46": unchanged(beforeSethvargoMark, hereSethvargoMark, []answer{{err: errBusy}, {err: errDown}}, outcome{attempts: exactly(2), gaps: exactly(1), sees: "last failure"}),
	"M40": failing(beforeSethvargo, hereFields(sethvargos()), 5, 0.8, 3),
	"M45": sethvargosTime,
	"M44": sethvargosTime,
	"M41": failing(beforeSethvargo, hereFields(sethvargos()), 5, 0.8, 3),
	"M42": failing(beforeSethvargo, hereFields(sethvargos()), 5, 0.8, 3),
	"M71": failing(beforeSethvargoFullJitter, hereFields(sethvargosFullJitter()), 5, 0, 8),
	"M72": failing(beforeSethvargoJitter, hereFields(sethvargosJitter()), 5, 2, 25),
	"M73": failing(beforeSethvargoFibonacci, hereFields(sethvargosFibonacci()), 6, 1, 8),
	"M43": failing(beforeSethvargo, hereFields(sethvargos()), 5, 0.8, 3),
	// failsafe-go.
	"M47": failing(beforeFailsafe(failsafeBackoff), hereFields(failsafesBackoff()), 5, 0.8, 3.6),
	"M48": failing(beforeFailsafe(failsafeDelay), hereFields(failsafesDelay()), 5, 1, 1),
	"M49": failing(beforeFailsafe(failsafeDelay), hereFields(failsafesDelay()), 5, 1, 1),
	"M50": failing(beforeFailsafe(failsafeBackoff), hereFields(failsafesBackoff()), 5, 0.8, 3.6),
	"M51": failing(beforeFailsafe(failsafeBackoff), hereFields(failsafesBackoff()), 5, 0.8, 3.6),
	"M69": delayedByError(beforeFailsafe(failsafeDelayFunc)),
	"M70": {script: []answer{{err: errDown, after: 30 * time.Second}, {}}, before: beforeFailsafe(failsafeNamedDelay), here: hereNamedDelay,
		was: outcome{attempts: exactly(2), gaps: exactly(30), sees: "done"}, is: outcome{attempts: exactly(2), gaps: [2]float64{30, 33}, sees: "done"}},
	"M63": unchanged(beforeClientOfTransport, hereClientOfTransport, []answer{{status: 503}, {took: time.Minute}}, outcome{attempts: exactly(2), gaps: exactly(1), sees: "deadline"}),
	"M52": failsafesTime,
	"M53": unchanged(beforeFailsafe(failsafeAbort), hereFields(failsafesAbort()), []answer{{err: errBusy}, {err: errDown}}, outcome{attempts: exactly(2), gaps: exactly(1), sees: "last failure"}),
	"M54": unchanged(beforeFailsafe(failsafeHandle), hereFields(failsafesHandle()), []answer{{err: errBusy}, {err: errDown}}, outcome{attempts: exactly(2), gaps: exactly(1), sees: "last failure"}),
	// go-retryablehttp.
	"M22": {script: times(1, answer{took: time.Minute}), before: beforeTimeout, here: hereTimeout,
		was: outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline"},
		is:  outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline, limit"}},
	"M29": unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"}),
	"M18": unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"}),
	"M19": unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"}),
	"M20": unchanged(beforeLinear, hereLinear, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 8}, sees: "500"}),
	"M55": unchanged(beforeCheck, hereCheck, []answer{{status: 412}, {status: 503}, {status: 412}, {status: 404}}, outcome{attempts: exactly(4), gaps: exactly(1), sees: "404"}),
	"M21": unchanged(beforeRetryMax, hereRetryMax, times(1, answer{status: 500}), outcome{attempts: exactly(5), gaps: [2]float64{1, 3}, sees: "500"}),
	"M56": unchanged(beforeCheck, hereKeptClient, []answer{{status: 412}, {status: 503}, {status: 412}, {status: 404}}, outcome{attempts: exactly(4), gaps: exactly(1), sees: "404"}),
	// Loops and polls.
	"M23": {script: down, before: beforeSleep, here: hereSleep,
		was: outcome{attempts: exactly(5), gaps: exactly(1), after: exactly(1), sees: "last failure"},
		is:  outcome{attempts: exactly(5), gaps: exactly(1), sees: "last failure, limit"}},
	"M64": {script: times(1, answer{took: time.Minute}), before: beforeClientInALoop, here: hereClientInALoop,
		was: outcome{attempts: exactly(3), gaps: exactly(1), after: exactly(1), sees: "deadline"},
		is:  outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline, limit"}},
	"M67": unchanged(beforeSleeper, hereSleeper, append(times(3, answer{err: errDown}), answer{}), outcome{attempts: exactly(4), gaps: [2]float64{0.25, 1.69}, sees: "done"}),
	"M24": {script: append(times(3, answer{state: "pending"}), answer{state: "done"}), before: beforeSleepyPoll, here: hereSleepyPoll,
		was: outcome{attempts: exactly(4), gaps: exactly(2), sees: "done"}},
	"M27": {script: down, cancel: 2500 * time.Millisecond, before: beforeStop, here: hereStop,
		was: outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure"},
		is:  outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure, cancelled"}},
	"M66": {script: down, cancel: 2500 * time.Millisecond, before: beforeStopGiven, here: hereStopGiven,
		was: outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure"},
		is:  outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure, cancelled"}},
	"M26": {script: times(1, answer{state: "pending"}), before: beforeRetriedPoll, here: hereRetriedPoll,
		was: outcome{attempts: exactly(6), gaps: exactly(2), sees: "last failure"},
		is:  outcome{attempts: exactly(7), gaps: [2]float64{1, 2}, sees: "last failure, limit"}},
	"M25": {script: times(1, answer{state: "pending"}), before: beforeWait, here: herePoll,
		was: outcome{attempts: exactly(6), gaps: exactly(2), after: exactly(1), sees: "deadline"},
		is:  outcome{attempts: exactly(6), gaps: exactly(2), sees: "deadline"}},
	"M57": unchanged(beforeWaiter, hereWaiter, append(times(3, answer{state: "missing"}), answer{state: "done"}), outcome{attempts: exactly(4), gaps: exactly(2), sees: "done"}),
	"M58": unchanged(beforeWaiter, hereWaiter, append(times(3, answer{state: "missing"}), answer{state: "done"}), outcome{attempts: exactly(4), gaps: exactly(2), sees: "done"}),
	"M74": unchanged(beforeGrowingWaiter, hereGrowingWaiter, append(times(4, answer{state: "missing"}), answer{state: "done"}), outcome{attempts: exactly(5), gaps: [2]float64{2, 16}, sees: "done"}),
}

var ruleRow = regexp.MustCompile("(?m)^\\| (M\\d+) \\| `(.+?)` \\| (?:`(.+?)`|–) \\|")

// TestTheRulesHold runs what each rule of the document replaces, and what it makes of it.
func TestTheRulesHold(t *testing.T) {
	before, here := oneLine(read(t, "rules_before_test.go")), oneLine(read(t, "rules_here_test.go"))
	rows := ruleRow.FindAllStringSubmatch(read(t, document), -1)
	require.Len(t, rows, len(rules))
	for _, row := range rows {
		t.Run(row[1], func(t *testing.T) {
			require.Contains(t, before, oneLine(row[2]), "no test runs it")
			require.Contains(t, here, oneLine(row[3]), "no test runs it")
			require.Contains(t, rules, row[1])
			rules[row[1]].check(t)
		})
	}
}

// oneLine writes code without line breaks, and without the commas before them.
func oneLine(code string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(code), " "), ", }", " }")
}
