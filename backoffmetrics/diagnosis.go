package backoffmetrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff"
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

// diagnosis says in words what the counters mean.
type diagnosis struct {
	Level level  `json:"level"`
	Text  string `json:"text"`
}

const (
	fewCalls      = 10   // fewer tell nothing
	manyRetries   = 0.1  // per call
	manyUnrescued = 0.1  // of calls
	hardlyAny     = 0.01 // of calls
)

// diagnose says what retries do for an operation.
func diagnose(t totals) diagnosis {
	calls := float64(t.calls())
	unrescued, retries := float64(t.unrescued), float64(t.retries)
	switch {
	case t.calls() == 0:
		return idle(t)
	case calls < fewCalls:
		return diagnosis{quiet, "Too few calls to tell: " + count(t.calls(), "call", "calls") + " lately."}
	case unrescued >= manyUnrescued*calls && t.unrescued > t.retried:
		return broken(t)
	case retries >= manyRetries*calls && unrescued < hardlyAny*calls:
		return diagnosis{watch, "Retries without errors: " + count(t.retries, "retry", "retries") + " in " +
			count(t.calls(), "call", "calls") + ", and hardly any call fails. The retry budget or the thresholds of a breaker are wrong, or a fault is hidden."}
	case unrescued >= hardlyAny*calls:
		return diagnosis{watch, "Retries rescue " + share(t.retried, t.retried+t.unrescued) + " of the calls that need them; " +
			share(t.unrescued, t.calls()) + " of all calls fail in the end."}
	}
	return well(t)
}

// diagnoseRecent diagnoses the last minutes, and the last minute alone if that
// is worse: an average hides what has just begun.
func (t timeline) diagnoseRecent(operation int) diagnosis {
	now := t.now().of(operation)
	d := diagnose(now.minus(t.lately().of(operation)))
	if m := diagnose(now.minus(t.minute().of(operation))); m.Level.urgency() > d.Level.urgency() {
		return diagnosis{m.Level, "In the last minute: " + strings.ToLower(m.Text[:1]) + m.Text[1:]}
	}
	return d
}

// idle diagnoses an operation without calls.
func idle(t totals) diagnosis {
	if t.reconnects > 0 {
		return diagnosis{good, "A supervised loop: " + count(t.reconnects, "reconnect", "reconnects") + "."}
	}
	return diagnosis{quiet, "No calls lately."}
}

// broken diagnoses a service that retries cannot help.
func broken(t totals) diagnosis {
	text := "Retries do not converge: " + share(t.unrescued, t.calls()) + " of calls fail all the same. The upstream is broken in a way that retries cannot fix."
	if t.refused > 0 {
		text += " The budget holds the load at " + times(t) + " that of the calls."
	} else if t.attempts > t.calls() {
		text += " They multiply its load by " + strings.TrimSuffix(times(t), " times") + "; no budget refused any."
	}
	return diagnosis{bad, text}
}

// well diagnoses an operation that needs no attention.
func well(t totals) diagnosis {
	text := "No call needs a retry."
	if t.retried > 0 {
		text = "Retries rescue " + share(t.retried, t.retried+t.unrescued) + " of the calls that need them."
	}
	if definitive := t.failed - t.unrescued; definitive > 0 {
		text += " " + share(definitive, t.calls()) + " fail for reasons that no retry would change."
	}
	return diagnosis{good, text}
}

// count returns a number and its noun.
func count(n uint64, one, many string) string {
	if n == 1 {
		many = one
	}
	return strconv.FormatUint(n, 10) + " " + many
}

// times returns the attempts per call.
func times(t totals) string {
	return strconv.FormatFloat(float64(t.attempts)/float64(t.calls()), 'f', 1, 64) + " times"
}

// share returns a part in per cent. It says 100 % only by the word all.
func share(part, whole uint64) string {
	percent := 100 * float64(part) / math.Max(1, float64(whole))
	switch {
	case part == whole:
		return "all"
	case percent > 0 && percent < 1:
		return "less than 1 %"
	}
	return fmt.Sprintf("%.0f %%", min(percent, 99))
}

// conclusion says what matters of everything, the worst first.
type conclusion struct {
	Level     level    `json:"level"`
	Sentences []string `json:"sentences"`
}

// conclude sums up the state of all operations and breakers.
func conclude(operations []operationReport, breakers []breakerReport) *conclusion {
	c := &conclusion{Level: good}
	var open, probing, broken, tune []string
	for _, b := range breakers {
		switch b.State {
		case backoff.StateOpen.String():
			open = append(open, b.Name)
		case backoff.StateHalfOpen.String():
			probing = append(probing, b.Name)
		}
	}
	for _, o := range operations {
		switch o.Diagnosis.Level {
		case bad:
			broken = append(broken, o.Name)
		case watch:
			tune = append(tune, o.Name)
		}
	}
	c.add(bad, "Retries cannot help ", broken)
	c.add(bad, "Circuit open: ", open)
	c.add(watch, "Circuit half-open: ", probing)
	c.add(watch, "Worth a look: ", tune)
	if c.Sentences == nil {
		c.Sentences = []string{"All is well."}
	}
	return c
}

// add adds a sentence that lists names, if there are any.
func (c *conclusion) add(l level, text string, names []string) {
	if len(names) == 0 {
		return
	}
	if l.urgency() > c.Level.urgency() {
		c.Level = l
	}
	const most = 3
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	c.Sentences = append(c.Sentences, text+strings.Join(names, ", ")+more+".")
}
