package backofftest

import (
	"sync"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
)

// line is a budget that makes an attempt every tenth of a second, with a fault.
// Attempts that are not made give back the end of the line only.
type line struct {
	backoff.BudgetDefaults

	fault string
	began time.Time

	mu    sync.Mutex
	taken int            // tenths of a second
	due   map[uint64]int // by ticket; 0 before Pace
	first map[uint64]bool
	last  uint64 // ticket
}

func newLine(fault string) *line {
	return &line{fault: fault, began: time.Now(), due: make(map[uint64]int), first: make(map[uint64]bool)}
}

func (b *line) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault == "takes for the wait" && a.First() {
		b.taken++
		return backoff.Ticket{}, time.Duration(b.taken) * time.Second / 10, true
	}
	b.last++
	b.due[b.last], b.first[b.last] = 0, a.First()
	return backoff.Ticket{Word: b.last}, 0, true
}

func (b *line) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	taken := b.taken
	if b.fault == "looks first" {
		b.mu.Unlock()
		time.Sleep(time.Millisecond)
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	switch b.fault {
	case "negative wait":
		return t, -1, true
	case "takes again":
		b.taken++
	case "never ends":
		delete(b.due, t.Word)
	}
	if b.due[t.Word] == 0 {
		b.taken = max(b.taken, taken) + 1
		if b.fault == "looks first" {
			b.taken = taken + 1
		}
		b.due[t.Word] = b.taken
	}
	return t, max(0, time.Until(b.began.Add(time.Duration(b.due[t.Word])*time.Second/10))), true
}

func (b *line) Done(t backoff.Ticket, r backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	due, held := b.due[t.Word]
	delete(b.due, t.Word)
	if r.String() != "not sent" {
		return
	}
	if due > 0 || b.fault == "gives for the held" && b.first[t.Word] || b.fault == "gives twice" && !held || b.fault == "gives what it has not" && held {
		b.taken--
	}
}

func TestABudgetThatKeepsThePacePasses(t *testing.T) {
	Budget(t, func() backoff.Budget { return newLine("") })
}

func TestTheFaultsOfAPaceAreFound(t *testing.T) {
	for fault, want := range map[string]string{
		"negative wait":         "negative wait",
		"looks first":           "looking and taking must be one step",
		"takes again":           "takes more",
		"never ends":            "no attempt would ever be made",
		"gives twice":           "a second Done",
		"gives what it has not": "Done gives back what Pace would have taken",
		"takes for the wait":    "gives tokens to first attempts that only wait",
		"gives for the held":    "held off are paced less",
	} {
		requireCaught(t, want, func(t testing.TB) {
			Budget(t, func() backoff.Budget { return newLine(fault) })
		})
	}
}
