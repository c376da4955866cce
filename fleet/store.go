package fleet

import (
	"context"
	"time"

	"github.com/gobackoff/backoff"
)

// Linger is how long a [Store] keeps what it knows of a circuit, at least, after the last
// of its times is over: those of being open, of a lease and of a vote.
const Linger = time.Minute

// A Store is what the processes of a fleet have in common. Package fleet has one in
// memory, contrib/backoffredis and contrib/backoffpostgres are others; of a new one,
// backofftest.Store says whether it is right.
//
// All methods are atomic, and safe for concurrent use by many processes. Times cross the
// interface as durations from now, and are kept by the store's own clock, never by that
// of a process. Durations may be rounded up to milliseconds. A method returns soon after
// ctx has ended. It may fail, and what it did may be lost at any time: then the fleet
// knows less. What an error did is not known.
//
// Circuits and tokens of the same key have nothing to do with each other.
type Store interface {
	// Load returns what is known of a circuit: the zero Circuit, if that is nothing.
	Load(ctx context.Context, key string) (Circuit, error)
	// Trip says that a process found a service down. It changes nothing if the circuit
	// is open, or has a generation beyond t.Seen: what the process saw is then old news.
	// Otherwise it opens the circuit for t.Open, under a new generation, if t.By holds
	// the lease, or if with this one there are votes of t.Quorum different voters. If
	// not, the vote counts for t.Open, and replaces an earlier one of the same voter.
	//
	// A new generation is one more than the old one, or than t.Seen if that is more. It
	// has neither votes nor lease.
	Trip(ctx context.Context, key string, t Trip) (Circuit, error)
	// Lease asks to be the one that probes, for d. It is granted if the circuit is
	// half-open and nobody, or by itself, holds the lease. A d of 0 or less gives it
	// back. Whether by holds it is in the Circuit returned.
	Lease(ctx context.Context, key, by string, d time.Duration) (Circuit, error)
	// Reset closes a circuit of the given generation, under a new one, if by holds the
	// lease. Otherwise it changes nothing.
	Reset(ctx context.Context, key, by string, generation uint64) (Circuit, error)

	// Take grants up to c.Tokens tokens, as far as those granted within the last
	// c.Window stay at c.Allowance or below. What it grants counts until c.Window is
	// over, or until it is given back. Asked again by the same name it answers the same,
	// so that it may be repeated when an answer was lost.
	Take(ctx context.Context, key string, c Claim) (granted int, err error)
	// Give gives n tokens of a block back. More than it has are all it has; a block that
	// is not known, or of which the time is over, changes nothing.
	Give(ctx context.Context, key, block string, n int) error
}

// A Circuit is what a [Store] knows of a service at some moment during a call.
type Circuit struct {
	Generation uint64        // of its state; 0 if nothing is known
	Tripped    bool          // and not closed since
	Open       time.Duration // tripped: for how long it will be open yet; 0 when it is half-open
	Openings   int           // tripped: how many times in a row, as the Trip said
	Leased     time.Duration // half-open: for how long somebody will hold the lease yet; 0: nobody does
	Mine       bool          // who asks holds it
}

// State returns the state of the circuit.
func (c Circuit) State() backoff.State {
	switch {
	case !c.Tripped:
		return backoff.StateClosed
	case c.Open > 0:
		return backoff.StateOpen
	}
	return backoff.StateHalfOpen
}

// A Trip is how a process says that a service is down.
type Trip struct {
	By       string        // the process
	Seen     uint64        // the generation it knew
	Open     time.Duration // how long it keeps away
	Openings int           // in a row
	Voter    string        // whose vote it is; several processes may be one voter
	Quorum   int           // how many voters must say so; below 1 counts as 1
}

// A Claim asks for tokens.
type Claim struct {
	Block     string // names what will be granted; a new name each time
	Tokens    int
	Allowance int           // of the whole fleet
	Window    time.Duration // in which it may be spent
}
