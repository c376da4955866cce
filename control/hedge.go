package control

import (
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// Hedge registers a hedge under its name. Call it before the first use of h:
// it adds to the Budget of h, which from then on refuses hedges while they are
// off. h is used as before.
func (p *Panel) Hedge(h *hedge.Hedge) {
	gate := &gate{of: h.Name}
	if h.Budget == nil {
		h.Budget = gate
	} else {
		h.Budget = backoff.JoinBudgets(gate, h.Budget)
	}
	p.register(gate)
}

// A gate is a budget that refuses hedges while it is shut.
type gate struct {
	backoff.BudgetDefaults

	of   string
	shut atomic.Bool
}

// Reserve implements [backoff.Budget].
func (g *gate) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, !a.Hedge || !g.shut.Load()
}

// name implements target.
func (g *gate) name() string { return g.of }

// keeps implements target.
func (*gate) keeps(what string) bool { return what == Hedges }

// keys implements target.
func (*gate) keys() []string { return nil }

// apply implements target.
func (g *gate) apply(p *Panel) { g.shut.Store(p.off(Hedges, g.of)) }
