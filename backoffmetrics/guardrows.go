package backoffmetrics

import (
	"fmt"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
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

// breakerRows returns what the page shows of breakers.
func (m *Metrics) breakerRows(t timeline) []breakerRow {
	numbers := make(map[*breaker]int)
	for i, b := range m.breakers.inOrder() {
		numbers[&b.value] = i
	}
	rows := []breakerRow{}
	for _, b := range m.shownBreakers() {
		number, ok := numbers[b.breaker]
		if !ok {
			number = -1 // it has done nothing
		}
		done := t.now().ofBreaker(number).minus(t.lately().ofBreaker(number))
		rows = append(rows, b.row(done))
	}
	return rows
}

// row returns what the page shows of a breaker.
func (b shownBreaker) row(done breakerTotals) breakerRow {
	r := breakerRow{Name: b.name, State: b.state.String(), Refused: done.refused, Opened: done.opened,
		Level: [...]level{good, bad, watch}[b.state]}
	switch {
	case b.mode == backoff.ModeForcedOpen, b.mode == backoff.ModeForcedClosed:
		r.State = b.mode.String()
		r.Text = "by hand or by the program, until that ends"
		r.Level = map[bool]level{true: bad, false: watch}[b.mode == backoff.ModeForcedOpen]
	default:
		r.Text, r.age = b.why()
	}
	if done.opened > 0 {
		r.Text += "; opened " + times(done.opened)
	}
	if done.refused > 0 {
		r.Text += "; refused " + callsText(done.refused)
	}
	if b.mode == backoff.ModeObserve {
		r.Text += "; it only observes, and refuses nothing"
		if b.state != backoff.StateClosed {
			r.State, r.Level = r.State+" (observed only)", watch
		}
	}
	return r
}

// why says for how long a breaker is in its state, and why.
func (b shownBreaker) why() (text, age string) {
	last := b.last.Load()
	switch {
	case last == nil && b.state == backoff.StateClosed:
		return "since the start", ""
	case last != nil && last.To == backoff.StateOpen && b.state == backoff.StateHalfOpen:
		return "the open time is over, and the next call probes the service", ""
	case last == nil || last.To != b.state:
		return "its Observer is not connected, so it is not known why", ""
	}
	age = durationText(max(0, clock.Since(last.At)))
	return "for " + age + ", because " + because(b.state, last.Trigger), age
}

// because says what made a breaker change to a state.
func because(to backoff.State, t backoff.Trigger) string {
	switch t {
	case backoff.TriggerRate:
		return "too many calls failed"
	case backoff.TriggerConsecutive:
		return "calls failed one after the other"
	case backoff.TriggerSlow:
		return "too many calls were slow"
	case backoff.TriggerRule:
		return "the rule TripIf said so"
	case backoff.TriggerTime:
		return "the open time is over and a call probes the service"
	case backoff.TriggerProbe:
		if to == backoff.StateClosed {
			return "probes succeeded"
		}
		return "a probe failed"
	case backoff.TriggerShared:
		return "another process said so"
	}
	return "it was set by hand or by the program"
}

// times says how often something happened.
func times(n uint64) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return count(n, "", "times")
}

// budgetRow is what the page shows of a budget, within the window of the budget
// itself. Used and Left add up to Allowed. Extra is what was granted beyond
// that.
type budgetRow struct {
	Name    string `json:"name"`
	Used    uint64 `json:"used"`
	Left    uint64 `json:"left"`
	Allowed uint64 `json:"allowed"`
	Extra   uint64 `json:"extra"`
	Text    string `json:"text"`
}

// budgetRows returns what the page shows of budgets.
func (m *Metrics) budgetRows() []budgetRow {
	rows := []budgetRow{}
	for _, b := range m.shownBudgets() {
		rows = append(rows, b.row())
	}
	return rows
}

// row returns what the page shows of a budget.
func (b shownBudget) row() budgetRow {
	r := budgetRow{Name: b.name, Allowed: b.Allowed, Used: min(b.Retries, b.Allowed)}
	r.Left, r.Extra = b.Allowed-r.Used, b.Retries-r.Used
	within := " within its window"
	if b.window > 0 {
		within = " in the last " + durationText(b.window)
	}
	r.Text = "no success" + within + ", and so none to pay for retries"
	if b.Successes > 0 {
		r.Text = count(b.Successes, "success", "successes") + within + " paid for " + count(b.Allowed, "retry", "retries")
	}
	if b.paced {
		r.Text = fmt.Sprintf("the service throttles: calls wait for their turn, at %.1f a second, and %s now; ", b.rate, count(uint64(b.waiting), "call waits", "calls wait")) + r.Text
	}
	if r.Extra > 0 {
		r.Text += "; " + count(r.Extra, "more was", "more were") + " granted, on earlier successes or as spare retries"
	}
	return r
}

// keysRow says how many keys were forgotten since the start.
type keysRow struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// keysRows returns what forgot keys.
func (m *Metrics) keysRows() []keysRow {
	rows := []keysRow{}
	for _, k := range m.shownKeys() {
		if k.evictions > 0 {
			rows = append(rows, keysRow{k.name, count(k.evictions, "key was", "keys were") + " forgotten since the start, because there were more than MaxKeys"})
		}
	}
	return rows
}
