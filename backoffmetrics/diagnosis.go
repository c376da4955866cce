package backoffmetrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff"
)

// A level says how urgent a diagnosis is.
type level string

const (
	quiet level = "quiet" // nothing to tell
	good  level = "good"
	watch level = "watch" // something to tune
	bad   level = "bad"   // something is broken
)

func (l level) urgency() int {
	return map[level]int{watch: 1, bad: 2}[l] // the others alike
}

// diagnosis is what the counters mean, in words.
type diagnosis struct {
	Level level  `json:"level"`
	Text  string `json:"text"`
}

const (
	fewCalls    = 10   // of which nothing can be said
	manyRetries = 0.1  // per call
	manyInVain  = 0.1  // of calls
	hardlyAny   = 0.01 // of calls
)

// diagnose says what retries do for an operation.
func diagnose(t totals) diagnosis {
	calls := float64(t.calls())
	vain, retries := float64(t.vain), float64(t.retries)
	switch {
	case t.calls() == 0:
		return idle(t)
	case calls < fewCalls:
		return diagnosis{quiet, "Too few calls to tell: " + count(t.calls(), "call", "calls") + " lately."}
	case vain >= manyInVain*calls && t.vain > t.retried:
		return broken(t)
	case retries >= manyRetries*calls && vain < hardlyAny*calls:
		return diagnosis{watch, "Retries without errors: " + count(t.retries, "retry", "retries") + " in " +
			count(t.calls(), "call", "calls") + ", and hardly any call fails. The retry budget or the thresholds of a breaker are wrong, or a fault is hidden."}
	case vain >= hardlyAny*calls:
		return diagnosis{watch, "Retries rescue " + share(t.retried, t.retried+t.vain) + " of the calls that need them; " +
			share(t.vain, t.calls()) + " of all calls fail in the end."}
	}
	return well(t)
}

// examine diagnoses the last minutes, and the last one alone where that is worse: what
// has just begun is drowned in an average.
func (p past) examine(operation int) diagnosis {
	now := p.now().of(operation)
	d := diagnose(now.minus(p.lately().of(operation)))
	if m := diagnose(now.minus(p.minute().of(operation))); m.Level.urgency() > d.Level.urgency() {
		return diagnosis{m.Level, "In the last minute: " + strings.ToLower(m.Text[:1]) + m.Text[1:]}
	}
	return d
}

func idle(t totals) diagnosis {
	if t.reconnects > 0 {
		return diagnosis{good, "A connection that is kept: " + count(t.reconnects, "reconnect", "reconnects") + "."}
	}
	return diagnosis{quiet, "No calls lately."}
}

// broken is a service that retries cannot help.
func broken(t totals) diagnosis {
	text := "Retries do not converge: " + share(t.vain, t.calls()) + " of calls fail all the same. The upstream is broken in a way that retries cannot fix."
	if t.refused > 0 {
		text += " The budget holds the load at " + times(t) + " that of the calls."
	} else if t.attempts > t.calls() {
		text += " They multiply its load by " + strings.TrimSuffix(times(t), " times") + "; no budget refused any."
	}
	return diagnosis{bad, text}
}

func well(t totals) diagnosis {
	text := "No call needs a retry."
	if t.retried > 0 {
		text = "Retries rescue " + share(t.retried, t.retried+t.vain) + " of the calls that need them."
	}
	if definitive := t.failed - t.vain; definitive > 0 {
		text += " " + share(definitive, t.calls()) + " fail for reasons that no retry would change."
	}
	return diagnosis{good, text}
}

func count(n uint64, one, many string) string {
	if n == 1 {
		many = one
	}
	return strconv.FormatUint(n, 10) + " " + many
}

func times(t totals) string {
	return strconv.FormatFloat(float64(t.attempts)/float64(t.calls()), 'f', 1, 64) + " times"
}

// share is a share in per cent; one that is not all never reads 100 %.
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

// conclusion is what there is to say of everything, the worst first.
type conclusion struct {
	Level     level    `json:"level"`
	Sentences []string `json:"sentences"`
}

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

// add adds a sentence about what is named, if anything is.
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
