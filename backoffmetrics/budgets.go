package backoffmetrics

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/pace"
)

// A shownBudget is a budget as it is shown.
type shownBudget struct {
	name string
	backoff.RetryBudgetStats
	window time.Duration // 0 if it is not known, or there are several

	paced   bool    // calls wait for their turn, because the service throttles
	rate    float64 // of the turns, per second
	waiting int     // calls
}

// addPace adds the pace of a budget that has one now.
func (b *shownBudget) addPace(budget any) {
	p, ok := budget.(*pace.Pacer)
	if !ok {
		return
	}
	if rate, waiting := p.Limit(); !math.IsInf(rate, 1) {
		b.paced, b.rate, b.waiting = true, b.rate+rate, b.waiting+waiting
	}
}

// shownBudgets returns all watched budgets, sorted by name. Those that share a
// name are added up.
func (m *Metrics) shownBudgets() []shownBudget {
	shown := make(map[string]shownBudget)
	add := func(name string, budget any) {
		b, ok := budget.(interface {
			Stats() backoff.RetryBudgetStats
		})
		if !ok {
			return
		}
		s, window := b.Stats(), windowOfBudget(budget)
		sum, ok := shown[name]
		if !ok {
			sum.window = window
		} else if sum.window != window {
			sum.window = 0
		}
		sum.name = name
		sum.addPace(budget)
		sum.Strained = sum.Strained || s.Strained
		sum.Successes, sum.Retries, sum.Allowed = sum.Successes+s.Successes, sum.Retries+s.Retries, sum.Allowed+s.Allowed
		shown[name] = sum
	}
	for name, b := range m.watched.budget.sorted() {
		add(name, b)
	}
	bounded, added := m.newBound(), make(map[*backoff.Budgets]bool)
	addAll := func(all *backoff.Budgets) {
		if added[all] {
			return
		}
		added[all] = true
		for key, b := range sortedByKey(all.All()) {
			add(bounded.label(key), b)
		}
	}
	for _, all := range m.watched.budgets.sorted() {
		addAll(all)
	}
	for _, all := range m.endpoints.budgets() {
		addAll(all)
	}
	return sortedByName(shown)
}

// windowOfBudget returns the time over which a budget counts, or 0 if that is
// not known.
func windowOfBudget(budget any) time.Duration {
	var own time.Duration
	switch b := budget.(type) {
	case *backoff.RetryBudget:
		own = b.Window
	case *pace.Pacer:
		own = b.Window
	default:
		return 0
	}
	return cmp.Or(max(0, own), defaultBudgetWindow)
}

// defaultBudgetWindow is that of a RetryBudget without a Window.
const defaultBudgetWindow = 10 * time.Second

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
	if b.Strained {
		r.Text = "the service is much slower than usual, so there are fewer retries; " + r.Text
	}
	if b.paced {
		r.Text = fmt.Sprintf("the service throttles: calls wait for their turn, at %.1f a second, and %s now; ", b.rate, count(uint64(b.waiting), "call waits", "calls wait")) + r.Text
	}
	if r.Extra > 0 {
		r.Text += "; " + count(r.Extra, "more was", "more were") + " granted, on earlier successes or as spare retries"
	}
	return r
}
