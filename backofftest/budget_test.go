package backofftest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func TestBudgetsPass(t *testing.T) {
	Budget(t, func() backoff.Budget { return new(backoff.RetryBudget) })
}

// free is a budget of ten tokens that grants first attempts unasked, with a
// fault.
type free struct{ tokens }

func (b *free) GrantsFirst() bool { return true }

func (b *free) Reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	if a.First() {
		return t, 0, b.fault != "asked after all"
	}
	return b.tokens.Reserve(a)
}

// tokens is a budget of ten tokens, with a fault. If that is "", the budget still
// gives tokens to attempts that only wait.
type tokens struct {
	backoff.BudgetDefaults

	fault string
	used  atomic.Int64
	last  atomic.Uint64 // ticket
	given sync.Map      // by ticket
}

func (b *tokens) Reserve(backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	switch b.fault {
	case "negative wait":
		wait = -1
	case "looks first":
		n := b.used.Load()
		time.Sleep(time.Millisecond)
		return t, 0, n < 10 && b.used.Add(1) > 0
	}
	if b.used.Add(1) > 10 {
		b.used.Add(-1)
		return t, 0, false
	}
	t.Word = b.last.Add(1)
	b.given.Store(t.Word, true)
	return t, wait, true
}

func (b *tokens) Done(t backoff.Ticket, r backoff.Result) {
	_, given := b.given.LoadAndDelete(t.Word)
	if r.String() == "not sent" && (given || b.fault == "gives twice") {
		b.used.Add(-1)
	}
}

func (b *tokens) Validate() error {
	if b.fault == "invalid" {
		return errService
	}
	return nil
}

func TestABudgetsFaultsAreFound(t *testing.T) {
	for fault, want := range map[string]string{
		"invalid":       "the service is down",
		"negative wait": "negative wait",
		"looks first":   "looking and granting must be one step",
		"gives twice":   "a second Done",
		"":              "because of others that only wait",
	} {
		requireCaught(t, want, func(t testing.TB) {
			Budget(t, func() backoff.Budget { return &tokens{fault: fault} })
		})
	}
}

func TestABudgetThatIsNotAskedIsChecked(t *testing.T) {
	for fault, want := range map[string]string{
		"asked after all": "does not grant a first attempt at once",
		"gives twice":     "gives back what was never taken",
	} {
		requireCaught(t, want, func(t testing.TB) {
			require.NoError(t, checkGrantsFirst(new(free), time.Now(), 10))
			if err := checkGrantsFirst(&free{tokens{fault: fault}}, time.Now(), 10); err != nil {
				t.Fatal(err)
			}
		})
	}
}
