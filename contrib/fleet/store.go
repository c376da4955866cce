package fleet

import (
	"context"
	"time"

	"github.com/gobackoff/backoff"
)

// Linger is how long, at least, a [Store] keeps what it knows of a circuit
// after everything in it has expired: the open time, the lease and the votes.
const Linger = time.Minute

// A Store holds what the processes of a fleet share. [Memory] is a store in
// memory; packages redisstore and postgresstore have others.
//
// All methods are atomic, and safe for concurrent use by many processes. Times
// cross the interface as durations from now. The store keeps them by its own
// clock, never by the clock of a process. It may round durations up to
// milliseconds. A method returns soon after ctx ends. It may fail, and the
// store may lose what it knows at any time: then the fleet knows less. When a
// method returns an error, the change may or may not have been made.
//
// Circuits and tokens of the same key are independent.
type Store interface {
	// Load returns what is known of a circuit: the zero Circuit if nothing is
	// known.
	Load(ctx context.Context, key string) (Circuit, error)
	// Trip says that a process found a service down. It changes nothing if the
	// circuit is open, or has a generation beyond t.Seen: what the process saw
	// is then out of date. Otherwise it opens the circuit for t.Open, under a
	// new generation, if t.By holds the lease, or if t.Quorum different voters
	// have voted, this one included. If it does not open the circuit, the vote
	// counts for t.Open, and replaces an earlier vote of the same voter.
	//
	// A new generation is one more than the old one, or than t.Seen if that is
	// more. It has neither votes nor a lease.
	Trip(ctx context.Context, key string, t Trip) (Circuit, error)
	// Lease asks for the right to probe, for d. It is granted if the circuit is
	// half-open and no other process holds the lease. A d of 0 or less gives
	// the lease back. The Circuit returned says whether the process named by
	// holds the lease.
	Lease(ctx context.Context, key, by string, d time.Duration) (Circuit, error)
	// Reset closes a circuit of the given generation, under a new generation,
	// if the process named by holds the lease. Otherwise it changes nothing.
	Reset(ctx context.Context, key, by string, generation uint64) (Circuit, error)

	// Take grants up to c.Tokens tokens, as long as the tokens granted within
	// the last c.Window do not exceed c.Allowance. Tokens count until c.Window
	// has passed, or until they are given back. A second Take with the same
	// name returns the same number, so it may be repeated when a response was
	// lost.
	Take(ctx context.Context, key string, c Claim) (granted int, err error)
	// Give gives n tokens of a block back, and at most the tokens that the
	// block still has. It changes nothing if the block is unknown or has
	// expired.
	Give(ctx context.Context, key, block string, n int) error
}

// A Circuit is what a [Store] knows of a service at some moment during a call.
type Circuit struct {
	Generation uint64        // counts changes of the state; 0 if nothing is known
	Tripped    bool          // the circuit is open or half-open
	Open       time.Duration // tripped: how long it stays open; 0 when it is half-open
	Openings   int           // tripped: how many times it opened in a row, as the Trip said
	Leased     time.Duration // half-open: how long a process still holds the lease; 0 if none does
	Mine       bool          // the process that asks holds the lease
}

// State returns the state of the circuit.
func (c Circuit) State() backoff.BreakerState {
	switch {
	case !c.Tripped:
		return backoff.BreakerClosed
	case c.Open > 0:
		return backoff.BreakerOpen
	}
	return backoff.BreakerHalfOpen
}

// A Trip reports that a process found a service down.
type Trip struct {
	By       string        // the process
	Seen     uint64        // the generation that the process knew
	Open     time.Duration // how long its breaker stays open
	Openings int           // how many times it opened in a row
	Voter    string        // whose vote this is; several processes may be one voter
	Quorum   int           // how many voters open the circuit; below 1 counts as 1
}

// A Claim asks for tokens.
type Claim struct {
	Block     string        // the name of the new block; never used before
	Tokens    int           // how many tokens the process wants
	Allowance int           // how many tokens the whole fleet has in a Window
	Window    time.Duration // how long the tokens are valid
}
