package page

import (
	"fmt"

	"github.com/gobackoff/backoff/internal/snapshot"
)

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

	paced bool // calls wait for their turn
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
	r := budgetRow{Name: b.Name, Allowed: b.Allowed, Used: min(b.Retries, b.Allowed), paced: b.PerSecond > 0}
	r.Left, r.Extra = b.Allowed-r.Used, b.Retries-r.Used
	r.Text = "no success within its window, and so none to pay for retries"
	if b.Successes > 0 {
		r.Text = count(b.Successes, "success", "successes") + " within its window paid for " +
			count(b.Allowed, "retry", "retries")
	}
	if b.Strained {
		r.Text = "the service is much slower than usual, so there are fewer retries; " + r.Text
	}
	waiting := count(uint64(b.Waiting), "call waits", "calls wait")
	switch {
	case b.PerSecond > 0:
		r.Text = fmt.Sprintf("the service throttles: calls wait for their turn, at %.1f a second, and %s now; ", b.PerSecond, waiting) + r.Text
	case b.AtOnce > 0:
		r.Text = fmt.Sprintf("the service is overloaded: at most %.0f attempts run at once, and %s now; ", max(1, b.AtOnce), waiting) + r.Text
	case b.Waiting > 0:
		r.Text = waiting + " for the service to come back; " + r.Text
	}
	if r.Extra > 0 {
		r.Text += "; " + count(r.Extra, "more was", "more were") + " granted, on earlier successes or as spare retries"
	}
	return r
}
