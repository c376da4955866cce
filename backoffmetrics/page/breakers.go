package page

import (
	"cmp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// breakerRow is what the page shows of a breaker. Its counts are those of the
// page's window.
type breakerRow struct {
	Name    string `json:"name"`
	State   string `json:"state"` // also "forced open", "forced closed", "open (observed only)"
	Level   level  `json:"level"`
	Text    string `json:"text"`
	Refused uint64 `json:"refused"`
	Opened  uint64 `json:"opened"`

	age string // how long it has been in its state, if that is known
}

// breakerTotals is what a breaker has done up to a moment.
type breakerTotals struct{ opened, refused uint64 }

// breakerTotalsOf returns what a breaker has done.
func breakerTotalsOf(b *snapshot.Breaker) breakerTotals {
	t := breakerTotals{refused: b.Refused}
	for from := range b.Transitions {
		t.opened += sum(b.Transitions[from][backoff.BreakerOpen][:])
	}
	return t
}

// breakerRows returns what the page shows of breakers.
func breakerRows(t timeline, all []*snapshot.Breaker) []breakerRow {
	rows := []breakerRow{}
	for _, b := range all {
		now, before := t.now().breakers[b.Name], t.lately().breakers[b.Name]
		rows = append(rows, breakerRowOf(b, breakerTotals{now.opened - before.opened, now.refused - before.refused}))
	}
	return rows
}

// breakerRowOf returns what the page shows of a breaker.
func breakerRowOf(b *snapshot.Breaker, done breakerTotals) breakerRow {
	r := breakerRow{Name: b.Name, State: b.State.String(), Refused: done.refused, Opened: done.opened,
		Level: [...]level{good, bad, watch}[b.State]}
	switch {
	case b.Mode == backoff.ModeForcedOpen, b.Mode == backoff.ModeForcedClosed:
		r.State = b.Mode.String()
		r.Text = "by hand or by the program, until that ends"
		r.Level = map[bool]level{true: bad, false: watch}[b.Mode == backoff.ModeForcedOpen]
	default:
		r.Text, r.age = whyOf(b)
	}
	if done.opened > 0 {
		r.Text += "; opened " + count(done.opened, "time", "times")
	}
	if done.refused > 0 {
		r.Text += "; refused " + callsText(done.refused)
	}
	if b.Mode == backoff.ModeObserve {
		r.Text += "; it only observes, and refuses nothing"
		if b.State != backoff.BreakerClosed {
			r.State, r.Level = r.State+" (observed only)", watch
		}
	}
	return r
}

// whyOf says for how long a breaker is in its state, and why.
func whyOf(b *snapshot.Breaker) (text, age string) {
	last := b.Last
	switch {
	case last == nil && b.State == backoff.BreakerClosed:
		return "since the start", ""
	case last != nil && last.To == backoff.BreakerOpen && b.State == backoff.BreakerHalfOpen:
		return "the open time has expired, and the next call probes the service; it opened because " + because(last.To, last.Trigger), ""
	case last == nil || last.To != b.State:
		return "the reason is not known: its Observer is not connected", ""
	}
	age = durationText(max(0, clock.Since(last.At)))
	return "for " + age + ", because " + because(b.State, last.Trigger), age
}

// because says what made a breaker change to a state.
func because(to backoff.BreakerState, trigger string) string {
	if trigger == "probe" && to == backoff.BreakerClosed {
		return "probes succeeded"
	}
	return cmp.Or(triggers[trigger], "it was set by hand or by the program")
}

// triggers says what each trigger of a transition means, but for "manual".
var triggers = map[string]string{
	"rate":        "too many calls failed",
	"consecutive": "calls failed one after the other",
	"slow":        "too many calls were slow",
	"rule":        "the rule TripIf wanted it",
	"time":        "the open time has expired and a call probes the service",
	"probe":       "a probe failed",
	"shared":      "another process of the fleet did so",
}
