package backoff

import (
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/registry"
)

// maxBudgets is how many budgets All can join: a Ticket has a word for each, so that
// none must be kept in memory.
const maxBudgets = 4

// All returns a [Budget] that wants the consent of every one of budgets, at most
// four. It asks them in order; when one refuses, those that granted before it get
// their attempt back, in reverse, as OutcomeNotSent. The wait is the longest of theirs. A nil
// budget is left out; an All inside an All counts as its members. [Policy.Validate]
// refuses more than four.
func JoinBudgets(budgets ...Budget) Budget {
	var members all
	for _, b := range budgets {
		switch b := b.(type) {
		case nil:
		case all:
			members = append(members, b...)
		default:
			members = append(members, b)
		}
	}
	return members
}

type all []Budget

func (s all) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	var tickets Ticket
	var longest time.Duration
	for i, b := range s {
		t, wait, ok := b.Reserve(a)
		if !ok {
			s[:i].Done(tickets, OutcomeNotSent)
			return Ticket{}, 0, false
		}
		tickets[i] = t[0]
		longest = max(longest, wait)
	}
	return tickets, longest, true
}

func (s all) Done(t Ticket, o Outcome) {
	for i := len(s) - 1; i >= 0; i-- {
		s[i].Done(Ticket{t[i]}, o)
	}
}

func (s all) Confirm(t Ticket) bool {
	for i, b := range s {
		if d, ok := b.(Confirmer); ok && !d.Confirm(Ticket{t[i]}) {
			return false
		}
	}
	return true
}

func (s all) Validate() error {
	if len(s) > maxBudgets {
		return invalid("All", "joins "+strconv.Itoa(len(s))+" budgets, want at most "+strconv.Itoa(maxBudgets))
	}
	for _, b := range s {
		if err := validate(b); err != nil {
			return err
		}
	}
	return nil
}

// validate asks whatever can be asked.
func validate(b Budget) error {
	if v, ok := b.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// Budgets keeps one [Budget] per key, such as a host, a table or a tenant, so that a
// hot one does not starve the others:
//
//	toHost := policy
//	toHost.Budget = budgets.For(host)
//
// The zero value makes a [RetryBudget] for each key. Keys may come from strangers:
// their number is bounded, and a key out of use is forgotten, with its budget. A
// Budgets must not be copied, nor its fields changed, after first use. It is safe for
// concurrent use; looking up a known key takes no lock.
type Budgets struct {
	// New makes the budget of a key that is new or was forgotten. nil means a
	// RetryBudget with its defaults.
	New func(key string) Budget
	// MaxKeys bounds the keys that are kept. 0 means 1024, a negative number no limit.
	MaxKeys int
	// Idle is how long a key is kept that nobody asks for, at least. 0 means 10
	// minutes, a negative number for ever, as far as MaxKeys allows.
	Idle time.Duration

	once sync.Once
	keys registry.Registry[Budget]
}

const (
	defaultMaxKeys = 1024
	defaultIdle    = 10 * time.Minute
)

// For returns the budget of key.
func (b *Budgets) For(key string) Budget {
	b.once.Do(b.open)
	return b.keys.Get(key)
}

func (b *Budgets) open() {
	b.keys.New = b.New
	if b.New == nil {
		b.keys.New = func(string) Budget { return new(RetryBudget) }
	}
	b.keys.Max, b.keys.Idle = registryLimits(b.MaxKeys, b.Idle)
}

func registryLimits(maxKeys int, idle time.Duration) (int, time.Duration) {
	switch {
	case maxKeys == 0:
		maxKeys = defaultMaxKeys
	case maxKeys < 0:
		maxKeys = int(^uint(0) >> 1)
	}
	switch {
	case idle == 0:
		idle = defaultIdle
	case idle < 0:
		idle = maxDuration
	}
	return maxKeys, idle
}
