// Package ledger keeps the accounts of budgets that behave as those of other systems.
package ledger

import "github.com/gobackoff/backoff"

// A Ledger keeps a note on each attempt that is under way: what it cost, or
// where it was counted. So each attempt is accounted for once, however often
// Done is called. The lock of its owner guards it.
//
// If Done were never called, a budget could fill up with attempts that never
// end. So the Ledger forgets all but the last 65,536 attempts at least.
type Ledger struct {
	last       uint64            // number of the last ticket
	young, old map[uint64]uint64 // notes by ticket; old are those before the last maxYoung
}

// maxYoung is how many attempts young holds before it becomes old.
const maxYoung = 1 << 16

// Add enters an attempt, and returns its ticket.
func (l *Ledger) Add(note uint64) backoff.Ticket {
	if l.young == nil || len(l.young) >= maxYoung {
		l.old, l.young = l.young, make(map[uint64]uint64)
	}
	l.last++
	l.young[l.last] = note
	return backoff.Ticket{Word: l.last}
}

// Find returns the note of an attempt; false if the attempt is not in the
// ledger.
func (l *Ledger) Find(t backoff.Ticket) (note uint64, ok bool) {
	if note, ok = l.young[t.Word]; ok {
		return note, true
	}
	note, ok = l.old[t.Word]
	return note, ok
}

// Remove removes an attempt, and returns its note; false if the attempt is not
// in the ledger.
func (l *Ledger) Remove(t backoff.Ticket) (note uint64, ok bool) {
	note, ok = l.Find(t)
	delete(l.young, t.Word)
	delete(l.old, t.Word)
	return note, ok
}
