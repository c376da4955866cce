package backoffmetrics

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
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
func (m *Metrics) pageData() *pageData {
	t := m.timeline()
	now := clock.Now()
	d := &pageData{
		Now: now.UnixMilli(), Period: periodOf(t, now), Process: thisProcess(), Controls: m.readControls(),
		Operations: []card{}, Breakers: m.breakerRows(t), Budgets: m.budgetRows(), Keys: m.keysRows(),
	}
	circuits := m.circuits(d.Breakers)
	callers := make(map[string]int)
	all := m.operations.inOrder()
	for _, o := range all {
		callers[o.endpoint]++
	}
	inFlight := make(map[string]int)
	for _, e := range m.shownEndpoints() {
		inFlight[e.name] = max(0, e.inFlight)
	}
	for i, o := range all {
		c := cardOf(t, i, o)
		if n, ok := inFlight[o.endpoint]; ok {
			c.Attempting = attemptingOf(t, o.endpoint, n, callers[o.endpoint])
		}
		if c.Circuit = circuits.of(o.labels); c.Circuit != nil && c.Circuit.Level == bad && c.finding != idle {
			c.Level = bad
		}
		c.Switchable = d.Controls.has(o.name)
		c.retriesOff = d.Controls.hasRetriesOff(o.name)
		c.Text = strings.Replace(c.Text, lookAtService, c.advice(), 1)
		d.Operations = append(d.Operations, c)
	}
	d.Headline = headlineOf(d)
	slices.SortStableFunc(d.Operations, func(a, b card) int {
		return cmp.Or(b.Level.urgency()-a.Level.urgency(), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return d
}

// circuits are the rows of breakers by their name, and the names of the
// breakers of each endpoint.
type circuits struct {
	rows      map[string]*breakerRow
	endpoints map[string][]string
}

// circuits finds the breakers of endpoints.
func (m *Metrics) circuits(rows []breakerRow) circuits {
	c := circuits{make(map[string]*breakerRow), make(map[string][]string)}
	for i := range rows {
		c.rows[rows[i].Name] = &rows[i]
	}
	for to := range m.endpoints.each() {
		if to.Breakers != nil {
			name := labelOf(to.Name)
			c.endpoints[name] = append(c.endpoints[name], labelOf(to.Service))
		}
	}
	return c
}

// of returns the breaker of an operation, or nil: that of its endpoint, or of
// its name. Of several the one counts whose state is the worst.
func (c circuits) of(l labels) (worst *breakerRow) {
	for _, name := range append(c.endpoints[l.endpoint], l.name) {
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
