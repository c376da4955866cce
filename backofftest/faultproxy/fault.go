package faultproxy

import (
	"math/rand/v2"
	"time"
)

// A Fault is what becomes of one exchange: a request, which is what the client sends after
// it was answered, and the answer to it. The zero Fault passes both on.
type Fault struct {
	kind  kind
	bytes int64         // of the answer, or for CutRequest of the request, that pass
	delay time.Duration // of Stall, Trickle and Crash
}

type kind uint8

const (
	pass kind = iota
	reset
	cutRequest
	dropAnswer
	resetAnswer
	truncate
	stall
	trickle
	crash
)

var kindNames = [...]string{"pass", "reset", "cut request", "drop answer", "reset answer", "truncate", "stall", "trickle", "crash"}

// String returns the name of the fault in lower case.
func (f Fault) String() string { return kindNames[f.kind] }

// Pass is no fault.
func Pass() Fault { return Fault{} }

// Reset resets the connection (RST) when the request begins, of which nothing reaches the
// target.
func Reset() Fault { return Fault{kind: reset} }

// CutRequest passes n bytes of the request on, then resets both connections.
func CutRequest(n int64) Fault { return Fault{kind: cutRequest, bytes: n} }

// DropAnswer passes the request on, waits until the target begins to answer, and resets the
// connection instead of passing any of that on: the effect was made, and the client cannot
// know.
//
// Of a server that answers before it acts, such as one that says 100 Continue, it is the
// first sign of life that is dropped.
func DropAnswer() Fault { return Fault{kind: dropAnswer} }

// ResetAfter passes n bytes of the answer on, then resets the connection. What the client
// has not read by then, its system may throw away.
func ResetAfter(n int64) Fault { return Fault{kind: resetAnswer, bytes: n} }

// Truncate passes n bytes of the answer on, then closes the connection in good order (FIN),
// as if the answer ended there.
func Truncate(n int64) Fault { return Fault{kind: truncate, bytes: n} }

// Stall passes n bytes of the answer on and holds the rest back for d. A d of 0 or less
// holds it back until the connection ends, or the client has ended its half of it.
func Stall(n int64, d time.Duration) Fault { return Fault{kind: stall, bytes: n, delay: d} }

// Trickle passes the answer on in pieces of n bytes, at least 1, with a pause of d before
// each.
func Trickle(n int64, d time.Duration) Fault { return Fault{kind: trickle, bytes: max(1, n), delay: d} }

// Crash resets all connections when the request begins, and refuses new ones until d has
// passed; with a d of 0 or less until [Proxy.Restore].
func Crash(d time.Duration) Fault { return Fault{kind: crash, delay: d} }

// A Plan says what becomes of the nth exchange, counted from 1 in the order in which they
// begin. It is called for one exchange at a time. A nil Plan passes everything.
type Plan func(n int) Fault

// Always returns a [Plan] of one fault for all.
func Always(f Fault) Plan { return func(int) Fault { return f } }

// Script returns a [Plan] that gives the nth exchange the nth of faults; those that follow pass.
func Script(faults ...Fault) Plan {
	return func(n int) Fault {
		if n > len(faults) {
			return Fault{}
		}
		return faults[n-1]
	}
}

// A Share is a [Fault] and how probable it is.
type Share struct {
	Fault       Fault
	Probability float64 // 0 to 1
}

// Randomly returns a [Plan] that draws from shares; what they leave of 1 passes. The draw
// depends on seed and the exchange's number only, so that a run can be repeated however its
// goroutines are scheduled.
func Randomly(seed uint64, shares ...Share) Plan {
	return func(n int) Fault {
		u := rand.New(rand.NewPCG(seed, uint64(n))).Float64()
		for _, s := range shares {
			if u < s.Probability {
				return s.Fault
			}
			u -= s.Probability
		}
		return Fault{}
	}
}
