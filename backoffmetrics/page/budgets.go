package page

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/snapshot"
	"github.com/gobackoff/backoff/pace"
)

// paceText says how fast the service lets calls pass, if it throttles.
func paceText(budgets []backoff.Budget) string {
	paced, rate, waiting := false, 0.0, 0
	for _, b := range budgets {
		if p, ok := b.(*pace.Pacer); ok {
			if limit, wait := p.Limit(); !math.IsInf(limit, 1) {
				paced, rate, waiting = true, rate+limit, waiting+wait
			}
		}
	}
	if !paced {
		return ""
	}
	return fmt.Sprintf("the service throttles: calls wait for their turn, at %.1f a second, and %s now; ", rate, count(uint64(waiting), "call waits", "calls wait"))
}

// windowOf returns the time over which all budgets count, or 0 if that differs
// or is not known.
func windowOf(budgets []backoff.Budget) (window time.Duration) {
	for i, b := range budgets {
		own := windowOfBudget(b)
		if i > 0 && own != window {
			return 0
		}
		window = own
	}
	return window
}

// windowOfBudget returns the time over which a budget counts, or 0 if that is
// not known.
func windowOfBudget(budget backoff.Budget) time.Duration {
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
func budgetRows(all []snapshot.Budget) []budgetRow {
	rows := []budgetRow{}
	for i := range all {
		rows = append(rows, budgetRowOf(&all[i]))
	}
	return rows
}

// budgetRowOf returns what the page shows of a budget.
func budgetRowOf(b *snapshot.Budget) budgetRow {
	r := budgetRow{Name: b.Name, Allowed: b.Allowed, Used: min(b.Retries, b.Allowed)}
	r.Left, r.Extra = b.Allowed-r.Used, b.Retries-r.Used
	within := " within its window"
	if window := windowOf(b.Of); window > 0 {
		within = " in the last " + durationText(window)
	}
	r.Text = "no success" + within + ", and so none to pay for retries"
	if b.Successes > 0 {
		r.Text = count(b.Successes, "success", "successes") + within + " paid for " + count(b.Allowed, "retry", "retries")
	}
	if b.Strained {
		r.Text = "the service is much slower than usual, so there are fewer retries; " + r.Text
	}
	r.Text = paceText(b.Of) + r.Text
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

// keysRows returns the rows of keyed breakers and budgets that forgot keys.
func keysRows(all []snapshot.Keys) []keysRow {
	rows := []keysRow{}
	for _, k := range all {
		if k.Evictions > 0 {
			rows = append(rows, keysRow{k.Name, count(k.Evictions, "key was", "keys were") + " forgotten since the start, because there were more than MaxKeys"})
		}
	}
	return rows
}
