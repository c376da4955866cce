package backoffmetrics

import (
	"strings"

	"github.com/gobackoff/backoff"
)

// headline says what to do, the most urgent first.
type headline struct {
	Level     level      `json:"level"`
	Sentences []sentence `json:"sentences"`
	// Announcement changes when a screen reader should read the headline again:
	// not with every number.
	Announcement string `json:"announcement"`
}

// sentence is part of the headline. ID is that of the card that shows more.
type sentence struct {
	Text string `json:"text"`
	ID   string `json:"id,omitempty"`
}

const (
	mostSentences = 3 // of operations
	lookAtService = " Retries cannot help; look at the service."
)

// headlineOf sums up everything.
func headlineOf(d *pageData) headline {
	h := headline{Level: good}
	told := make(map[string]bool) // breakers
	var more uint64
	for _, f := range []finding{broken, partly, hidden, recovered} {
		for i := range d.Operations {
			c := &d.Operations[i]
			if c.finding != f {
				continue
			}
			if c.Circuit != nil {
				told[c.Circuit.Name] = true
			}
			if len(h.Sentences) == mostSentences {
				more++
				continue
			}
			h.add(f.level(), sentence{c.sentence(), c.ID})
		}
	}
	if more > 0 {
		h.add(watch, sentence{Text: count(more, "more operation needs", "more operations need") + " a look."})
	}
	h.addBreakers(d.Breakers, told)
	if h.Sentences == nil {
		h.Sentences = []sentence{{Text: "Nothing to do."}}
	}
	for _, s := range h.Sentences {
		before, _, _ := strings.Cut(s.Text, ":")
		h.Announcement += strings.TrimSuffix(before, ".") + ". "
	}
	return h
}

// add adds a sentence.
func (h *headline) add(l level, s sentence) {
	if l.urgency() > h.Level.urgency() {
		h.Level = l
	}
	h.Sentences = append(h.Sentences, s)
}

// addBreakers adds the breakers of which no sentence has told.
func (h *headline) addBreakers(rows []breakerRow, told map[string]bool) {
	var open, forced, probing []string
	for _, b := range rows {
		switch {
		case told[b.Name]:
		case b.State == backoff.StateOpen.String():
			open = append(open, b.Name)
		case b.State == backoff.ModeForcedOpen.String():
			forced = append(forced, b.Name)
		case b.State == backoff.StateHalfOpen.String():
			probing = append(probing, b.Name)
		}
	}
	if len(open) > 0 {
		h.add(bad, sentence{Text: "The circuit is open for " + list(open) + ": calls are refused." + lookAtService})
	}
	if len(forced) > 0 {
		h.add(bad, sentence{Text: "The program has forced the circuit open for " + list(forced) + ": close it when the service may be called."})
	}
	if len(probing) > 0 {
		h.add(watch, sentence{Text: "The circuit is half-open for " + list(probing) + ": single calls probe the service. Wait for their result."})
	}
}

// sentence says what to do about an operation.
func (c *card) sentence() string {
	share := c.FailedShare + " of its calls failed"
	switch {
	case c.finding == recovered:
		return c.title() + " has recovered: " + share + ", and hardly any in the last minute."
	case c.finding == hidden:
		return "Retries hide a fault of " + c.title() + ": look at its errors."
	case c.finding == partly:
		return c.title() + " is flaky: " + share + ". Look at its errors."
	case c.Circuit != nil && c.Circuit.State == backoff.StateHalfOpen.String():
		return c.title() + " may be coming back: single calls probe it. " + c.FailedShare + " of its calls failed. Wait for the probes."
	case c.Circuit != nil && c.Circuit.State == backoff.ModeForcedOpen.String():
		return c.title() + " is switched off: the program has forced its circuit open, and " + share + "."
	case c.Circuit != nil && c.Circuit.State == backoff.StateOpen.String():
		return c.title() + " is down: its circuit is open, and " + share + "." + lookAtService
	}
	return c.title() + " is failing: " + share + "." + lookAtService
}

// title returns the name of an operation, and what it calls.
func (c *card) title() string {
	if c.Endpoint == "" {
		return c.Name
	}
	return c.Name + " (" + c.Endpoint + ")"
}
