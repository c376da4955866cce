package fleet

import (
	"time"

	"github.com/gobackoff/backoff"
)

// For processes that live for one call, or for a few far apart: they cannot learn from
// what they saw themselves.
const (
	// ServerlessWait is the Wait of [Serverless]: a call that knows nothing asks first.
	ServerlessWait = 50 * time.Millisecond
	// ServerlessQuorum is its Quorum. Where one process is one call, random failures
	// become votes, too: with a share p of attempts failing at random, and n processes in
	// 5 seconds, about n*p^3 of them vote. See docs/fleet.md before changing it.
	ServerlessQuorum = 5
	// ServerlessStreak is the Streak of [ServerlessBreaker]: three attempts of one call.
	ServerlessStreak = 3
	// ServerlessBlock is the Block for a [Budget]: what a process takes and does not
	// spend before it ends is out until the Window is over.
	ServerlessBlock = 1
)

// Serverless returns a [Client] for processes that live for one call. Each asks the store
// first, for up to 50 ms, and then goes by what it knows. Call its Flush before the
// process ends or is frozen: otherwise what it found out may be lost.
func Serverless(store Store) *Client {
	return &Client{Store: store, Wait: ServerlessWait, Quorum: ServerlessQuorum}
}

// ServerlessBreaker returns a breaker for them. It belongs inside the policy, where it
// hears of every attempt:
//
//	backoff.Stack(&backoff.Policy{Name: "search"}, fleet.ServerlessBreaker("search", hub))
//
// It opens when three attempts in a row have failed, however quickly, and one that
// succeeds closes the circuit of the fleet. A nil hub means none.
func ServerlessBreaker(name string, hub *Client) *backoff.Breaker {
	b := &backoff.Breaker{Name: name, ConsecutiveFailures: ServerlessStreak, ConsecutiveSpan: -1, ProbeSuccesses: 1}
	if hub != nil {
		b.Shared = hub
	}
	return b
}
