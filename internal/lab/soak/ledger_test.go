package soak

import (
	"math/bits"
	"sync/atomic"
)

// A ledger is a set of calls, by number, of one bit each. It is allocated in
// full at the beginning, so that it does not grow during a run.
type ledger []atomic.Uint64

func newLedger(calls int) ledger { return make(ledger, (calls+63)/64) }

// add adds a call, and reports whether it was in the set already.
func (l ledger) add(n int) bool {
	bit := uint64(1) << (n % 64)
	return l[n/64].Or(bit)&bit != 0
}

func (l ledger) count() (n int) {
	for i := range l {
		n += bits.OnesCount64(l[i].Load())
	}
	return n
}

// without counts the calls that are in l and not in other.
func (l ledger) without(other ledger) (n int) {
	for i := range l {
		n += bits.OnesCount64(l[i].Load() &^ other[i].Load())
	}
	return n
}

// with counts the calls that are in both.
func (l ledger) with(other ledger) int { return l.count() - l.without(other) }

func (l ledger) has(n int) bool { return l[n/64].Load()&(1<<(n%64)) != 0 }
