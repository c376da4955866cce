package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/limits"
)

// A Budget is a [backoff.Budget] that shares out a number of retries among all processes
// of a fleet. Each takes a block of tokens from the store and pays its retries and hedges
// with them; first attempts are never refused. It is best joined with one that looks at
// this process alone:
//
//	var budget = backoff.JoinBudgets(&backoff.RetryBudget{}, &fleet.Budget{Client: hub, Name: "search", Allowance: 200})
//
// The bound: as long as the store answers, all processes together make at most Allowance
// retries, and one Block each, in any interval of length Window. What a process does not
// spend, because it crashed or had no use for it, is the fleet's again when Window is over.
//
// It does not wait for the store. The token of a retry is asked for when the retry is
// granted, before its sleep, and must be there when it departs. Where the store is silent,
// a process has one Block per Window of its own: when it has not had any tokens for two
// windows and the answer is not there yet, and when the store is gone.
//
// The zero value is not ready: Client and Name are needed. A Budget must not be copied, nor
// its fields changed, after first use. It is safe for concurrent use. A retry takes a lock.
// A Done that never comes costs nothing, and a second one changes nothing.
type Budget struct {
	// Client talks to the store.
	Client *Client
	// Name is what the budget is for, the same in all processes.
	Name string
	// Allowance is the retries of the whole fleet in a Window. 0 means 100, a negative
	// number no limit; then the store is not asked.
	Allowance int
	// Window is the time that counts. 0 means 10 seconds; negative ones are invalid.
	Window time.Duration
	// Block is how many tokens a process takes at a time, at most once per the Client's
	// Every; so it is what a process can spend in that time. 0 means 10; negative ones
	// are invalid.
	Block int

	mu      sync.Mutex
	tokens  int       // of the block
	block   uint32    // its number
	until   time.Time // when it is void
	granted time.Time // when there were tokens last
	asked   time.Time // when the store was asked last
	asking  bool
	failed  bool      // the last time
	lent    int       // retries that had no token
	lentAt  time.Time // the last of them
	last    uint32    // ticket
	open    [16]uint64
}

const (
	defaultAllowance = 100
	defaultWindow    = 10 * time.Second
	defaultBlock     = 10
)

// Validate names the field that makes no sense.
func (b *Budget) Validate() error {
	switch {
	case b == nil:
		return errors.New("fleet: Budget is nil")
	case b.Client == nil:
		return errors.New("fleet: Budget.Client is nil")
	case b.Name == "":
		return errors.New("fleet: Budget.Name is empty, want the name that other processes know it by")
	case b.Window < 0:
		return fmt.Errorf("fleet: Budget.Window is %v, want 0 (for 10s) or more", b.Window)
	case b.Block < 0:
		return fmt.Errorf("fleet: Budget.Block is %d, want 0 (for 10) or more", b.Block)
	}
	return b.Client.Validate()
}

// The ticket of a retry holds its number, and that of the block which paid for it, unless
// it is on credit.
const (
	ofRetry   = 1 << 63
	onCredit  = 1 << 62
	blockBits = 30
	recalled  = 1024 // of the last so many tickets it is known which are out
)

// Reserve implements [backoff.Budget].
func (b *Budget) Reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	if a.Kind == backoff.AttemptFirst || b.Allowance < 0 {
		return t, 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.draw(now) {
		return b.issue(uint64(b.block) % (1 << blockBits) << 32), 0, true
	}
	b.ask(now)
	if b.asking || b.failed && b.lends(now) {
		return b.issue(onCredit), 0, true
	}
	return t, 0, false
}

// draw takes a token of the block.
func (b *Budget) draw(now time.Time) bool {
	if b.tokens == 0 || !now.Before(b.until) {
		return false
	}
	b.tokens--
	return true
}

// lend takes a token that is not there, if there is no word from the store: it failed, or
// takes too long, or was asked for the first time in long. So what is left of a block
// and what is lent are never spent in the same window.
func (b *Budget) lend(now time.Time) bool {
	late := now.Sub(b.asked) >= b.Client.timeout() && b.Client.timeout() > 0
	first := b.granted.IsZero() || now.Sub(b.granted) >= 2*b.window()
	if !b.failed && !(b.asking && (late || first)) || !b.lends(now) {
		return false
	}
	b.lent++
	b.lentAt = now
	return true
}

func (b *Budget) lends(now time.Time) bool { return b.debt(now) < b.size() }

// debt returns what was lent, but for what is a Window past.
func (b *Budget) debt(now time.Time) int {
	if now.Sub(b.lentAt) >= b.window() {
		b.lent = 0
	}
	return b.lent
}

func (b *Budget) issue(flags uint64) backoff.Ticket {
	b.last++
	word, bit := b.place(uint64(b.last))
	*word |= bit
	return backoff.Ticket{ofRetry | flags | uint64(b.last)}
}

// place is where it is written down whether a ticket is out.
func (b *Budget) place(ticket uint64) (*uint64, uint64) {
	return &b.open[uint32(ticket)/64%(recalled/64)], 1 << (ticket % 64)
}

// settle takes a ticket back, and reports whether it was out.
func (b *Budget) settle(ticket uint64) bool {
	word, bit := b.place(ticket)
	if b.last-uint32(ticket) >= recalled || *word&bit == 0 {
		return false
	}
	*word &^= bit
	return true
}

// Depart implements [backoff.Confirmer]. A retry that was granted on credit needs its
// token now.
func (b *Budget) Confirm(t backoff.Ticket) bool {
	if t[0]&onCredit == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.draw(now) && !b.lend(now) {
		return false
	}
	b.settle(t[0])
	return true
}

// Done implements [backoff.Budget]. The token of a retry that was not made is there for
// another one; and one that was made without having departed is paid now.
func (b *Budget) Done(t backoff.Ticket, o backoff.Outcome) {
	if t[0]&ofRetry == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.settle(t[0]) {
		return
	}
	block, now := t[0]>>32%(1<<blockBits), time.Now()
	switch made := o != backoff.OutcomeNotSent; {
	case t[0]&onCredit == 0 && !made && block == uint64(b.block)%(1<<blockBits):
		b.tokens++
	case t[0]&onCredit != 0 && made && !b.draw(now):
		b.lent, b.lentAt = b.lent+1, now
	}
}

// ask asks the store for a block, unless it was asked a moment ago.
func (b *Budget) ask(now time.Time) {
	c := b.Client
	if b.asking || !b.asked.IsZero() && now.Sub(b.asked) < c.every() {
		return
	}
	id, ok := c.engage()
	if !ok { // it is closed
		b.failed = true
		return
	}
	b.asking, b.asked = true, now
	b.block++
	b.tokens = 0
	go b.take(Claim{Block: b.name(id, b.block), Tokens: b.size(), Allowance: b.allowance(), Window: b.window()}, now)
}

func (b *Budget) name(id string, block uint32) string {
	return id + "/" + strconv.FormatUint(uint64(block), 36)
}

// take takes a block from the store.
func (b *Budget) take(claim Claim, now time.Time) {
	c := b.Client
	defer c.disengage()
	var granted int
	err := c.call(func(ctx context.Context) (err error) {
		granted, err = c.Store.Take(ctx, b.Name, claim)
		return err
	})
	if b.receive(granted, err, claim, now) && !c.hold(b, now.Add(claim.Window)) {
		b.leave(c.id) // it was closed meanwhile
	}
}

// receive takes in the answer of the store to a claim, and reports whether there are tokens.
func (b *Budget) receive(granted int, err error, claim Claim, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking, b.failed = false, err != nil
	if granted = min(granted, claim.Tokens); err != nil || granted <= 0 {
		return false
	}
	b.granted, b.until = now, now.Add(claim.Window)
	repaid := min(b.debt(time.Now()), granted)
	b.lent -= repaid
	b.tokens = granted - repaid
	return true
}

// leave gives back what is left.
func (b *Budget) leave(id string) {
	b.mu.Lock()
	n, name := b.tokens, b.name(id, b.block)
	b.tokens = 0
	b.mu.Unlock()
	if n > 0 {
		_ = b.Client.call(func(ctx context.Context) error { return b.Client.Store.Give(ctx, b.Name, name, n) })
	}
}

func (b *Budget) allowance() int {
	return limits.Or(b.Allowance, defaultAllowance)
}

func (b *Budget) window() time.Duration {
	if b.Window <= 0 {
		return defaultWindow
	}
	return b.Window
}

func (b *Budget) size() int {
	if b.Block <= 0 {
		return defaultBlock
	}
	return b.Block
}
