package fleet

import (
	"time"

	"github.com/gobackoff/backoff"
)

// The settings for processes that live for one call, or for a few calls far
// apart. Such a process sees too little to learn from.
const (
	// ServerlessWait is the Wait of [Serverless]: a call that knows nothing
	// asks the store first.
	ServerlessWait = 50 * time.Millisecond
	// ServerlessQuorum is the Quorum of [Serverless]. Where one process is one
	// call, random failures become votes too: if a share p of attempts fails at
	// random, and n processes run in 5 seconds, about n*p^3 of them vote. See
	// README.md before you change it.
	ServerlessQuorum = 5
	// ServerlessConsecutiveFailures is the ConsecutiveFailures of
	// [ServerlessBreaker]: three attempts of one call.
	ServerlessConsecutiveFailures = 3
	// ServerlessBlock is the Block for a [Budget]. Tokens that a process takes
	// and does not spend before it ends are missing until the end of the
	// Window.
	ServerlessBlock = 1
)

// Serverless returns a [Client] for processes that live for one call. Each
// process asks the store first, for up to 50 ms, and then uses what it knows.
// Call its Flush before the process ends or is frozen: otherwise what it found
// out may be lost.
func Serverless(store Store) *Client {
	return &Client{Store: store, Wait: ServerlessWait, Quorum: ServerlessQuorum}
}

// ServerlessBreaker returns a breaker for such processes. Put it inside the
// policy, so that it receives the result of every attempt:
//
//	err := policy.Do(ctx, fleet.ServerlessBreaker("search", hub).Wrap(search))
//
// It opens when three attempts in a row have failed, however quickly. One
// successful attempt closes the circuit of the fleet. A nil hub means that the
// breaker is not shared.
func ServerlessBreaker(name string, hub *Client) *backoff.Breaker {
	b := &backoff.Breaker{Name: name, ConsecutiveFailures: ServerlessConsecutiveFailures, ConsecutiveSpan: -1, ProbeSuccesses: 1}
	if hub != nil {
		b.Shared = hub
	}
	return b
}
