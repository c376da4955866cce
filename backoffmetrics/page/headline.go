package page

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

	brief string // without the numbers, which change all the time
}

// say returns a sentence.
func say(brief, more string) sentence { return sentence{Text: brief + more, brief: brief} }

const (
	mostSentences   = 3 // of operations
	lookAtService   = " Retries cannot help; look at the service."
	circuitIsForced = " Its circuit is forced open: close it when the service may be called."
	retriesAreOff   = " Retries are switched off; look at the service."
	sendFewer       = " The service throttles: send fewer calls, or ask for a higher limit."
)

// headlineOf sums up everything.
func headlineOf(d *pageData) headline {
	h := headline{Level: good}
	named := make(map[string]bool) // breakers
	var more uint64
	for _, f := range []finding{broken, throttled, permanent, doubtful, partly, hidden, recovered} {
		for i := range d.Operations {
			c := &d.Operations[i]
			if c.finding != f {
				continue
			}
			if len(h.Sentences) == mostSentences {
				more++
				continue
			}
			if c.Circuit != nil {
				named[c.Circuit.Name] = true
			}
			l, s := c.sentence()
			s.ID = c.ID
			h.add(l, s)
		}
	}
	if more > 0 {
		h.add(watch, sentence{Text: count(more, "more operation needs", "more operations need") + " a look.", brief: "More operations need a look"})
	}
	h.addBreakers(d.Breakers, named)
	if h.Sentences == nil {
		h.add(nothingToDo(d))
	}
	h.addOverrides(d.Controls)
	for _, s := range h.Sentences {
		h.Announcement += s.brief + ". "
	}
	return h
}

// nothingToDo says that, as far as it is known, unless calls are slow for a reason.
func nothingToDo(d *pageData) (level, sentence) {
	var slow []string
	for i := range d.Budgets {
		if b := &d.Budgets[i]; b.paced {
			slow = append(slow, b.Name)
		}
	}
	if len(slow) > 0 {
		return watch, say("Calls wait for their turn at "+list(slow), "."+sendFewer)
	}
	for i := range d.Operations {
		if c := &d.Operations[i]; c.finding == few && c.failures > 0 {
			return good, say("Nothing to do", ", as far as so few calls tell.")
		}
	}
	return good, say("Nothing to do", ".")
}

// add adds a sentence.
func (h *headline) add(l level, s sentence) {
	if l.urgency() > h.Level.urgency() {
		h.Level = l
	}
	h.Sentences = append(h.Sentences, s)
}

// addBreakers adds the breakers that no sentence names yet.
func (h *headline) addBreakers(rows []breakerRow, named map[string]bool) {
	names := make(map[string][]string) // by state
	for _, b := range rows {
		if !named[b.Name] {
			names[b.State] = append(names[b.State], b.Name)
		}
	}
	add := func(l level, state, more string) {
		if len(names[state]) > 0 {
			h.add(l, say("The circuit is "+state+" for "+list(names[state]), more))
		}
	}
	add(bad, backoff.BreakerOpen.String(), ": calls are refused."+lookAtService)
	add(bad, backoff.ModeForcedOpen.String(), ": close it when the service may be called.")
	add(watch, backoff.BreakerHalfOpen.String(), ": the next calls probe the service. Wait for their result.")
}

// addOverrides adds what is overridden, as a reminder.
func (h *headline) addOverrides(c *controls) {
	if c == nil || len(c.Overrides) == 0 {
		return
	}
	var what []string
	for _, o := range c.Overrides {
		what = append(what, o.what)
	}
	h.add(good, say("Overridden by hand: "+list(what), "."))
}

// sentence says what to do about an operation, and how urgent that is.
func (c *card) sentence() (level, sentence) {
	title, share := c.title(), c.FailedShare+" of its calls failed"
	since := strings.TrimSuffix(". "+c.since, " ")
	circuit := ""
	if c.Circuit != nil {
		circuit = c.Circuit.State
	}
	switch circuit {
	case backoff.BreakerHalfOpen.String():
		return c.finding.level(), say(title+" may be coming back", ": the next calls probe it. "+share+since+" Wait for their result.")
	case backoff.ModeForcedOpen.String():
		return bad, say(title+" is switched off", ": "+share+since+c.advice())
	case backoff.BreakerOpen.String():
		if c.since == "" && c.Circuit.age != "" {
			since = ". The circuit opened " + c.Circuit.age + " ago."
		}
		return bad, say(title+" is down", ": its circuit is open, and "+share+since+c.advice())
	}
	switch c.finding {
	case recovered:
		return c.finding.level(), say(title+" has recovered", ": "+share+since)
	case throttled:
		return c.finding.level(), say(title+" is throttled", ": "+share+since+sendFewer)
	case hidden:
		return c.finding.level(), say("Retries hide a fault of "+title, ": look at its errors.")
	case partly:
		return c.finding.level(), say(title+" is flaky", ": "+share+since+" Look at its errors.")
	case doubtful:
		return c.finding.level(), say(title+" may be down", ": none of its last calls succeeded"+since+" Look at its errors.")
	case permanent:
		return c.finding.level(), say(title+" is failing for reasons that no retry changes", ": "+share+since+" Look at its errors.")
	}
	return c.finding.level(), say(title+" is failing", ": "+share+since+c.advice())
}

// advice says what to do about a service that is broken. While its circuit is
// forced open, that is no fault of the service. Whether retries can help is not
// known while they are off.
func (c *card) advice() string {
	switch {
	case c.Circuit != nil && c.Circuit.State == backoff.ModeForcedOpen.String():
		return circuitIsForced
	case c.retriesOff:
		return retriesAreOff
	}
	return lookAtService
}

// title returns the name of an operation, and what it calls.
func (c *card) title() string {
	if c.Endpoint == "" {
		return c.Name
	}
	return c.Name + " (" + c.Endpoint + ")"
}
