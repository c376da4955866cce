package faultproxy

import (
	"math/rand/v2"
	"time"
)

// A Fault is what happens to one exchange: a request of the client, and the
// response of the target to it. The functions of this package make one. The
// zero Fault is [Pass]. Faults can be compared by ==.
//
// Counts of bytes are those of the connection, headers included; a negative
// count is 0. A response, or for [CutRequest] a request, that is shorter than
// the count passes unharmed.
type Fault struct {
	kind  kind
	bytes int64         // of the answer, or for CutRequest of the request, that pass
	delay time.Duration // of Stall and Trickle
}

// A kind says which function made a Fault.
type kind uint8

const (
	pass kind = iota
	reset
	cutRequest
	resetAnswer
	truncate
	stall
	trickle
)

// Pass passes on the request and the response: it is no fault.
func Pass() Fault { return Fault{} }

// Reset resets the connection (RST) when the request begins. Nothing of the
// request reaches the target.
func Reset() Fault { return Fault{kind: reset} }

// CutRequest passes on the first n bytes of the request, then resets the
// connections to the client and to the target.
func CutRequest(n int64) Fault { return Fault{kind: cutRequest, bytes: n} }

// DropAnswer passes on the request, waits until the target begins to respond,
// and resets the connection without passing on any of the response. The target
// has executed the request, and the client cannot know that.
//
// If the target responds before it executes the request, as a server does that
// sends 100 Continue, the connection is reset at this first response.
func DropAnswer() Fault { return ResetAfter(0) }

// ResetAfter passes on the first n bytes of the response, then resets the
// connection. The client has 5 ms to read them; its system may discard what it
// has not read when the reset arrives.
func ResetAfter(n int64) Fault { return Fault{kind: resetAnswer, bytes: n} }

// Truncate passes on the first n bytes of the response, then closes the
// connection in good order (FIN), as if the response ended there.
func Truncate(n int64) Fault { return Fault{kind: truncate, bytes: n} }

// Stall passes on the first n bytes of the response and holds back the rest
// for d. If d is 0 or less, it holds back the rest until the client closes the
// connection or its half of it.
func Stall(n int64, d time.Duration) Fault { return Fault{kind: stall, bytes: n, delay: d} }

// Trickle passes on the response in pieces of n bytes, at least 1, and waits
// for d before each piece. If d is 0 or less, it passes on nothing, as
// Stall(0, d).
func Trickle(n int64, d time.Duration) Fault { return Fault{kind: trickle, bytes: max(1, n), delay: d} }

// A Plan returns the fault of the nth exchange. Exchanges are counted from 1,
// in the order in which they begin, over all connections of a proxy. The proxy
// calls its Plan for one exchange at a time. A Plan must not call the methods
// of the Proxy that calls it.
type Plan func(n int) Fault

// Always returns a [Plan] that gives every exchange the fault f.
func Always(f Fault) Plan { return func(int) Fault { return f } }

// Script returns a [Plan] that gives the nth exchange the nth of faults.
// Exchanges after the last of faults pass.
func Script(faults ...Fault) Plan {
	return func(n int) Fault {
		if n > len(faults) {
			return Fault{}
		}
		return faults[n-1]
	}
}

// A Share is a [Fault] and its probability, for [Randomly].
type Share struct {
	Fault       Fault
	Probability float64 // of an exchange to have this fault, from 0 to 1
}

// Randomly returns a [Plan] that draws the fault of each exchange from shares.
// With the probability that remains, 1 minus the sum of theirs, an exchange
// passes. If the sum is above 1, the last shares get less than their
// probability.
//
// The draw depends on seed and the number of the exchange alone, so that a run
// can be repeated in whatever order its goroutines run.
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
