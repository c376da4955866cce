package page

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
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
		Now: now.UnixMilli(), Period: periodOf(t, now), Process: thisProcess(),
		Controls: readControls(p.panels), Operations: []card{},
		Breakers: breakerRows(t, all.Breakers), Budgets: budgetRows(all.Budgets),
	}
	endpoints := make(map[string]snapshot.Endpoint)
	for _, e := range all.Endpoints {
		endpoints[e.Name] = e
	}
	for i := range all.Operations {
		o := &all.Operations[i]
		c := p.cardOf(t, o)
		to, ok := endpoints[o.Endpoint]
		if ok {
			c.Attempting = attemptingOf(t, o.Endpoint, to.InFlight)
		}
		c.Circuit = worstCircuit(d.Breakers, append(slices.Clone(to.Breakers), o.Name))
		if c.Circuit != nil && c.Circuit.Level == bad && c.finding != idle {
			c.Level = bad
		}
		c.retriesOff = d.Controls.hasRetriesOff(o.Name)
		c.Text = strings.Replace(c.Text, lookAtService, c.advice(), 1)
		d.Operations = append(d.Operations, c)
	}
	d.Headline = headlineOf(d)
	slices.SortStableFunc(d.Operations, func(a, b card) int { return b.Level.urgency() - a.Level.urgency() })
	return d
}

// worstCircuit returns the breaker of one of the names whose state is the worst,
// or nil.
func worstCircuit(rows []breakerRow, names []string) (worst *breakerRow) {
	for i := range rows {
		b := &rows[i]
		if slices.Contains(names, b.Name) && (worst == nil || b.Level.urgency() > worst.Level.urgency()) {
			worst = b
		}
	}
	return worst
}

// process describes the process that serves the page. It has neither arguments nor the
// environment, where secrets are.
type process struct {
	Program string `json:"program"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid"`
	Version string `json:"version,omitempty"` // of the main module, with the revision
	Go      string `json:"go"`
	Started int64  `json:"started"` // in ms of the Unix time
}

// started is when the packages were initialized.
var started = clock.Now()

// thisProcess describes this process.
var thisProcess = sync.OnceValue(func() process {
	p := process{PID: os.Getpid(), Go: runtime.Version(), Started: started.UnixMilli()}
	if path, err := os.Executable(); err == nil {
		p.Program = filepath.Base(path)
	}
	p.Host, _ = os.Hostname()
	if info, ok := debug.ReadBuildInfo(); ok {
		p.Version = info.Main.Version
	}
	return p
})
