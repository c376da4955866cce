package page

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// pageData is what the page shows, as JSON. All counts are those of one window,
// and a moment is in ms of the Unix time.
type pageData struct {
	Now        int64        `json:"now"`
	Period     period       `json:"period"`
	Process    process      `json:"process"`
	Headline   headline     `json:"headline"`
	Controls   *controls    `json:"controls,omitempty"`
	Operations []card       `json:"operations"`
	Breakers   []breakerRow `json:"breakers"`
	Budgets    []budgetRow  `json:"budgets"`
	Keys       []keysRow    `json:"keys"`
}

// period is the time of the page's numbers.
type period struct {
	Start   int64   `json:"start"`
	Seconds float64 `json:"seconds"`
	Text    string  `json:"text"` // such as "the last 5 min"
}

// periodOf returns the window of a timeline.
func periodOf(t timeline, now time.Time) period {
	length := t.length()
	w := period{Start: now.Add(-length).UnixMilli(), Seconds: length.Seconds(), Text: "the last " + durationText(length)}
	if t.lately().first {
		w.Text += ", and nothing was counted before"
	} else if length > span+2*step {
		w.Text += ", since nobody opened the page before"
	}
	return w
}

// pageData returns what the page shows.
func (p *page) pageData() *pageData {
	t, all := p.timeline()
	now := clock.Now()
	d := &pageData{
		Now: now.UnixMilli(), Period: periodOf(t, now), Process: thisProcess(), Controls: readControls(p.panels),
		Operations: []card{}, Breakers: breakerRows(t, all.Breakers), Budgets: budgetRows(all.Budgets), Keys: keysRows(all.Keys),
	}
	circuits := circuitsOf(d.Breakers, all.Endpoints)
	callers := make(map[string]int)
	for i := range all.Operations {
		callers[all.Operations[i].Endpoint]++
	}
	inFlight := make(map[string]int)
	for _, e := range all.Endpoints {
		inFlight[e.Name] = e.InFlight
	}
	for i := range all.Operations {
		o := &all.Operations[i]
		c := p.cardOf(t, o)
		if n, ok := inFlight[o.Endpoint]; ok {
			c.Attempting = attemptingOf(t, o.Endpoint, n, callers[o.Endpoint])
		}
		if c.Circuit = circuits.of(o.Labels); c.Circuit != nil && c.Circuit.Level == bad && c.finding != idle {
			c.Level = bad
		}
		c.Switchable = d.Controls.has(o.Name)
		c.retriesOff = d.Controls.hasRetriesOff(o.Name)
		c.Text = strings.Replace(c.Text, lookAtService, c.advice(), 1)
		d.Operations = append(d.Operations, c)
	}
	d.Headline = headlineOf(d)
	slices.SortStableFunc(d.Operations, func(a, b card) int { return b.Level.urgency() - a.Level.urgency() })
	return d
}

// circuits are the rows of breakers by their name, and the names of the
// breakers of each endpoint.
type circuits struct {
	rows      map[string]*breakerRow
	endpoints map[string][]string
}

// circuitsOf finds the breakers of endpoints.
func circuitsOf(rows []breakerRow, endpoints []snapshot.Endpoint) circuits {
	c := circuits{make(map[string]*breakerRow), make(map[string][]string)}
	for i := range rows {
		c.rows[rows[i].Name] = &rows[i]
	}
	for _, e := range endpoints {
		c.endpoints[e.Name] = e.Breakers
	}
	return c
}

// of returns the breaker of an operation, or nil: that of its endpoint, or of
// its name. Of several it returns the one whose state is the worst.
func (c circuits) of(l snapshot.Labels) (worst *breakerRow) {
	for _, name := range append(slices.Clone(c.endpoints[l.Endpoint]), l.Name) {
		if b := c.rows[name]; b != nil && (worst == nil || b.Level.urgency() > worst.Level.urgency()) {
			worst = b
		}
	}
	return worst
}

// seconds rounds a time to 0.1 ms. It returns -1 for NaN, which JSON has not.
func seconds(s float64) float64 {
	if math.IsNaN(s) {
		return -1
	}
	return math.Round(s*1e4) / 1e4
}
