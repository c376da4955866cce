package hedge

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/gobackoff/backoff/internal/limits"
)

// defaultExtraLoad is the default of MaxExtraLoad, the hedges for each call that
// succeeds.
const defaultExtraLoad = 0.05

const (
	freeHedges = 10        // hedges that need not be earned first
	oneHedge   = 1_000_000 // price of a hedge: loads are kept to a millionth
)

// An account has the calls that succeeded, and the hedges that they pay for. The first
// ten hedges need not be paid. The zero value is ready to use. It is safe for
// concurrent use, and must not be copied after first use.
type account struct {
	calls atomic.Uint64 // calls that succeeded

	mu   sync.Mutex
	seen uint64 // calls at the newest look
	debt int64  // hedges not yet paid for, in millionths
}

// take pays for a hedge, and reports whether there was something to pay with. A negative
// extraLoad means no limit.
func (a *account) take(extraLoad float64) bool {
	share := limits.Or(extraLoad, defaultExtraLoad)
	if share < 0 {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := a.calls.Load()
	earned := int64(math.Round(share*oneHedge)) * int64(calls-a.seen)
	a.debt, a.seen = max(0, a.debt-earned), calls
	if a.debt > (freeHedges-1)*oneHedge {
		return false
	}
	a.debt += oneHedge
	return true
}

// giveBack takes back what was paid for a hedge that is not sent.
func (a *account) giveBack() {
	a.mu.Lock()
	a.debt = max(0, a.debt-oneHedge)
	a.mu.Unlock()
}
