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
	name, gate := h.Name, new(gate)
	h.Budget = backoff.JoinBudgets(gate, h.Budget)
	p.register(target{name: name, what: []string{Hedges}, keys: noKeys, apply: func(p *Panel) {
		gate.shut.Store(p.off(Hedges, name))
	}})
}

// A gate is a budget that refuses hedges while it is shut.
type gate struct {
	backoff.BudgetDefaults

	shut atomic.Bool
}

// Reserve implements [backoff.Budget].
func (g *gate) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, !a.Hedge || !g.shut.Load()
}
