package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/gobackoff/backoff/internal/snapshot"
)

// level says how urgent a diagnosis is.
type level string

const (
	quiet level = "quiet" // too little is known
	good  level = "good"
	watch level = "watch" // something needs tuning
	bad   level = "bad"   // something is broken
)

// urgency returns a number by which levels are ordered.
func (l level) urgency() int { return map[level]int{watch: 1, bad: 2}[l] }

// finding is what the counters of an operation mean.
type finding int

const (
	idle      finding = iota // there was no call
	few                      // too few to judge
	well                     // retries do what they are for
	recovered                // it was broken, and is no more
	hidden                   // retries hide a fault
	partly                   // some calls fail although they are retried
	doubtful                 // too few to judge, and none succeeded
	permanent                // most calls fail for reasons that no retry changes
	throttled                // the service wants fewer calls
	broken                   // retries cannot help
)

// level returns how urgent a finding is.
func (f finding) level() level {
	return [...]level{quiet, quiet, good, watch, watch, watch, watch, watch, bad, bad}[f]
}

// diagnosis says in words what the counters mean.
type diagnosis struct {
	finding finding
	text    string
	since   string // a sentence, if it is known when it began
}

const (
	fewCalls    = 10   // fewer tell nothing
	someCalls   = 3    // fewer do not, even if all of them failed
	manyRetries = 0.1  // per call
	manyFailed  = 0.1  // of calls
	hardlyAny   = 0.01 // of calls
)

// find says what retries do for an operation.
func find(t totals) finding {
	calls, failed := float64(t.calls()), float64(t.transient())
	switch {
	case t.calls() == 0:
		return idle
	case calls < fewCalls && calls >= someCalls && t.failed == t.calls():
		return doubtful
	case calls < fewCalls:
		return few
	case isBroken(t) && isThrottled(t):
		return throttled
	case isBroken(t) && (t.open > 0 || t.transient() > t.retried):
		return broken
	case isPermanent(t):
		return permanent
	case float64(t.retries) >= manyRetries*calls && failed < hardlyAny*calls:
		return hidden
	case failed >= hardlyAny*calls:
		return partly
	}
	return well
}

// isBroken reports whether many calls failed although that might have passed.
func isBroken(t totals) bool { return float64(t.transient()) >= manyFailed*float64(t.calls()) }

// isThrottled reports whether calls failed because the service throttles. Most
// of them wait for their turn until they end, and make no attempt.
func isThrottled(t totals) bool {
	return t.throttled > 0 && 2*t.throttled >= t.failedAttempts && 2*t.open < t.transient()
}

// isPermanent reports whether most calls failed for reasons that no retry
// changes, such as a password that is no longer valid.
func isPermanent(t totals) bool { return 2*(t.failed-t.transient()) >= t.calls() }

// hasOnlyFailures reports whether no call succeeded.
func hasOnlyFailures(t totals) bool { return t.failed == t.calls() }

// diagnose says what happened within the window of the page. The last minute
// decides how urgent it is if it is worse: an average hides what has just begun.
// All numbers are those of the window.
func (t timeline) diagnose(operation snapshot.Labels) diagnosis {
	now := t.now().totals[operation]
	window, minute := now.minus(t.lately().totals[operation]), now.minus(t.minute().totals[operation])
	whole, last := find(window), find(minute)
	d := diagnosis{finding: whole}
	switch {
	case last == doubtful && whole != doubtful && last.level().urgency() >= whole.level().urgency():
		d = diagnosis{last, describe(whole, window) + " None of its few calls of the last minute succeeded.", t.sinceText(operation, last)}
		d.text = strings.TrimSpace(d.text + " " + d.since)
		return d
	case last.level().urgency() > whole.level().urgency():
		d.finding, d.since = last, "This began within the last minute."
	}
	if over := t.overText(operation, last); over != "" && isTrouble(d.finding) {
		return diagnosis{recovered, describe(partly, window) + " " + over, over}
	}
	if since := t.sinceText(operation, d.finding); since != "" {
		d.since = since
	}
	d.text = strings.TrimSpace(describe(d.finding, window) + " " + d.since)
	return d
}

// isTrouble reports whether a finding is of calls that fail in such numbers that
// their end is worth a word.
func isTrouble(f finding) bool { return f == broken || f == throttled || f == permanent }

// overText says since when hardly any call failed, or nothing if that is not
// so: last is the finding of the last minute.
func (t timeline) overText(operation snapshot.Labels, last finding) string {
	now, well := t.now(), time.Duration(0)
	for i := len(t) - 2; i >= 0; i-- {
		d := now.totals[operation].minus(t[i].totals[operation])
		if float64(d.failed) >= hardlyAny*float64(d.calls()) && d.calls() > 0 {
			break
		}
		if d.calls() >= fewCalls {
			well = now.at - t[i].at
		}
	}
	switch {
	case well >= 2*step:
		return "It is over: hardly any call of the last " + durationText(well) + " failed."
	case last.level() == good:
		return "It is over: hardly any call of the last minute failed."
	}
	return ""
}

// sinceText says when a finding began, or nothing if that is not known.
func (t timeline) sinceText(operation snapshot.Labels, f finding) string {
	holds, ok := map[finding]func(totals) bool{broken: isBroken, throttled: isBroken, permanent: isPermanent, doubtful: hasOnlyFailures}[f]
	if !ok {
		return ""
	}
	began, ok := t.since(operation, holds)
	if !ok {
		return ""
	}
	text := "This began " + durationText(t.now().at-began) + " ago"
	if began == t[0].at && !t[0].first {
		text += " or earlier"
	}
	return text + "."
}

// since returns since when something holds of the calls that ended, without a
// break.
func (t timeline) since(operation snapshot.Labels, holds func(totals) bool) (began time.Duration, ok bool) {
	for i := len(t) - 1; i > 0; i-- {
		d := t[i].totals[operation].minus(t[i-1].totals[operation])
		if d.calls() == 0 {
			continue
		}
		if !holds(d) {
			break
		}
		began, ok = t[i-1].at, true
	}
	return began, ok
}

// describe says what a finding means, with the numbers of t.
func describe(f finding, t totals) string {
	switch f {
	case idle:
		if t.reconnects > 0 {
			return "A supervised loop: " + count(t.reconnects, "reconnect", "reconnects") + "."
		}
		return "No calls."
	case few, doubtful:
		return "Too few calls to judge: " + failed(t) + "."
	case broken:
		return failed(t) + "." + lookAtService + loadText(t)
	case throttled:
		return failed(t) + "." + sendFewer
	case hidden:
		return "Retries hide a fault: " + callsText(t.calls()) + " made " + count(t.retries, "retry", "retries") + ", and hardly any of them failed."
	}
	text := "No call needed a retry."
	if needed := t.retried + t.transient(); needed > 0 {
		text = "Retries rescued " + share(t.retried, needed) + " of the " + callsText(needed) + " that needed them."
	}
	if t.failed > 0 {
		text = failed(t) + ". " + text
	}
	return text
}

// failed says how many calls failed, and why. The reasons add up.
func failed(t totals) string {
	all := t.calls()
	if t.failed == 0 && all == 1 {
		return "the only one succeeded"
	}
	if t.failed == 0 {
		return "none of " + callsText(all) + " failed"
	}
	var reasons []string
	for _, r := range []struct {
		calls uint64
		why   string
	}{
		{t.open, "because the circuit was open"},
		{t.transientFailures, "because attempts, time or budget ran out"},
		{t.failed - t.transient(), "for reasons that no retry changes"},
	} {
		switch r.calls {
		case 0:
		case t.failed:
			reasons = []string{r.why}
		default:
			reasons = append(reasons, count(r.calls, r.why, r.why))
		}
	}
	text := count(t.failed, "of ", "of ") + callsText(all) + " failed (" + failedShare(t) + ")"
	if len(reasons) == 1 {
		return text + ", " + reasons[0]
	}
	return text + ": " + strings.Join(reasons, ", ")
}

// failedShare returns which share of the calls failed.
func failedShare(t totals) string { return share(t.failed, t.calls()) }

// loadText says what retries do to a service that is broken.
func loadText(t totals) string {
	bare := t.attempts - min(t.attempts, t.retries+t.hedges)
	load := float64(t.attempts) / float64(max(1, bare))
	switch {
	case t.refused > 0:
		return fmt.Sprintf(" Retries multiply its load by %.1f; the retry budget refuses more.", load)
	case load > 1+manyRetries:
		return fmt.Sprintf(" Retries multiply its load by %.1f, and no budget refused any.", load)
	}
	return ""
}
