package backoffmetrics

import (
	"strings"
	"time"
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
func (l level) urgency() int {
	return map[level]int{watch: 1, bad: 2}[l]
}

// finding is what the counters of an operation mean.
type finding int

const (
	idle      finding = iota // there was no call
	few                      // too few to judge
	well                     // retries do what they are for
	recovered                // it was broken, and is no more
	hidden                   // retries hide a fault
	partly                   // some calls fail although they are retried
	broken                   // retries cannot help
)

// level returns how urgent a finding is.
func (f finding) level() level {
	return [...]level{quiet, quiet, good, watch, watch, watch, bad}[f]
}

// diagnosis says in words what the counters mean.
type diagnosis struct {
	finding finding
	text    string
}

const (
	fewCalls    = 10   // fewer tell nothing
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
	case calls < fewCalls:
		return few
	case failed >= manyFailed*calls && (t.open() > 0 || t.transient() > t.retried):
		return broken
	case float64(t.retries) >= manyRetries*calls && failed < hardlyAny*calls:
		return hidden
	case failed >= hardlyAny*calls:
		return partly
	}
	return well
}

// diagnose says what happened within the window of the page. The last minute
// decides how urgent it is if it is worse: an average hides what has just begun.
// All numbers are those of the window.
func (t timeline) diagnose(operation int) diagnosis {
	now := t.now().of(operation)
	window, minute := now.minus(t.lately().of(operation)), now.minus(t.minute().of(operation))
	whole, last := find(window), find(minute)
	switch {
	case last.level().urgency() > whole.level().urgency():
		return diagnosis{last, describe(last, window) + " It began within the last minute."}
	case whole == broken && last.level() == good:
		return diagnosis{recovered, describe(partly, window) + " It is over: hardly any call of the last minute failed."}
	}
	d := diagnosis{whole, describe(whole, window)}
	if began, ok := t.brokenSince(operation); whole == broken && ok {
		d.text += " This has lasted for " + durationText(t.now().at-began)
		if began == t[0].at && !t[0].first {
			d.text += " or longer"
		}
		d.text += "."
	}
	return d
}

// brokenSince returns since when so many calls fail, without a break.
func (t timeline) brokenSince(operation int) (began time.Duration, ok bool) {
	for i := len(t) - 1; i > 0; i-- {
		d := t[i].of(operation).minus(t[i-1].of(operation))
		if d.calls() == 0 {
			continue
		}
		if float64(d.transient()) < manyFailed*float64(d.calls()) {
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
	case few:
		return "Too few calls to judge: " + failed(t) + "."
	case broken:
		return failed(t) + "." + lookAtService + loadText(t)
	case hidden:
		return "Retries hide a fault: " + callsText(t.calls()) + " made " + count(t.retries, "retry", "retries") + ", and hardly any of them failed."
	}
	text := "No call needed a retry."
	if needed := t.retried + t.transient(); needed > 0 {
		text = "Retries rescued " + share(t.retried, needed) + " of the " + callsText(needed) + " that needed them."
	}
	if t.failures() > 0 {
		text = failed(t) + ". " + text
	}
	return text
}

// failed says how many calls failed, and why. The reasons add up.
func failed(t totals) string {
	all := t.calls()
	if t.failures() == 0 {
		return "none of " + callsText(all) + " failed"
	}
	var reasons []string
	for _, r := range []struct {
		calls uint64
		why   string
	}{
		{t.open(), "because the circuit was open"},
		{t.unrescued, "because attempts, time or budget ran out"},
		{t.failures() - t.transient(), "for reasons that no retry changes"},
	} {
		switch r.calls {
		case 0:
		case t.failures():
			reasons = []string{r.why}
		default:
			reasons = append(reasons, count(r.calls, r.why, r.why))
		}
	}
	text := count(t.failures(), "of ", "of ") + callsText(all) + " failed (" + failedShare(t) + ")"
	if len(reasons) == 1 {
		return text + ", " + reasons[0]
	}
	return text + ": " + strings.Join(reasons, ", ")
}

// outcomes returns the calls by how they ended: at once, after retries, failed,
// or refused by a breaker. They are all calls.
func (t totals) outcomes() []uint64 {
	return []uint64{t.first, t.retried, t.failures() - t.open(), t.open()}
}

// percentages returns the shares of the outcomes, and that of all failures. They
// add up.
func (t totals) percentages() (of []int, failed int) {
	o := t.outcomes()
	sides := shares(100, o[0]+o[1], o[2]+o[3])
	return append(shares(sides[0], o[0], o[1]), shares(sides[1], o[2], o[3])...), sides[1]
}

// failedShare returns which share of the calls failed.
func failedShare(t totals) string {
	_, failed := t.percentages()
	return percentText(failed, t.failures(), t.calls())
}

// loadText says what retries do to a service that is broken.
func loadText(t totals) string {
	switch perCall := decimal(t.attempts, t.calls()); {
	case t.refused > 0:
		return " The retry budget keeps the load at " + perCall + " attempts per call."
	case float64(t.attempts) > (1+manyRetries)*float64(t.calls()):
		return " Retries multiply its load by " + perCall + ", and no budget refused any."
	}
	return ""
}
