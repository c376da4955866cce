package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// A Budget is a [backoff.Budget] that shares a limit of retries among all
// processes of a fleet. Each process takes a block of tokens from the store
// and pays for its retries and hedges with them. First attempts are never
// refused. Join it with a budget that looks at this process alone:
//
//	var budget = backoff.JoinBudgets(
//		&backoff.RetryBudget{},
//		&fleet.Budget{Client: hub, Name: "search", Allowance: 200},
//	)
//
// The bound: as long as the store responds, in any interval of length Window
// all processes together make at most Allowance retries, plus one Block for
// each process. Tokens that a process does not spend, because it crashed or
// did not need them, return to the fleet at the end of Window.
//
// A Budget does not wait for the store. It asks for the token of a retry when
// it grants the retry, before the sleep, and the token must have arrived when
// the sleep ends. A retry whose wait is longer than the Client's Every pays
// after the wait: so retries that were all told to start at the same time stay
// within the bound. Only such a retry may then wait for the store, for the
// Client's Timeout, or its Wait if that is shorter, or negative for no wait.
//
// If the store does not respond, a process has one Block per Window of its
// own. That is so when the store fails, and when the process has had no tokens
// for two windows and the response has not arrived yet.
//
// The zero value is not ready to use: Client and Name must be set. A Budget
// must not be copied, and its fields must not be changed, after first use. It
// is safe for concurrent use. A retry takes a lock. If Done is never called for
// an attempt, nothing is lost; a second Done changes nothing.
type Budget struct {
	// Client talks to the store.
	Client *Client
	// Name says what the budget is for. It is the same in all processes.
	Name string
	// Allowance is how many retries the whole fleet may make in a Window. 0
	// means 100. A negative number means no limit, and the store is not asked.
	Allowance int
	// Window is the interval in which retries are counted. 0 means 10 seconds;
	// a negative Window is invalid.
	Window time.Duration
	// Block is how many tokens a process takes at a time. A process takes at
	// most one block in each Every of its Client, so Block also bounds what it
	// can spend in that time. 0 means 10; a negative Block is invalid.
	Block int

	mu          sync.Mutex
	tokens      int        // left of the current block
	block       uint32     // number of the current block
	expires     time.Time  // when the current block expires
	grantedAt   time.Time  // when the store last granted tokens
	askedAt     time.Time  // when the store was last asked
	asking      bool       // an answer of the store is outstanding
	failed      bool       // the last request to the store failed
	borrowed    int        // retries that were sent without a token
	borrowedAt  time.Time  // when the last of these retries was sent
	lastTicket  uint32     // number of the last ticket
	outstanding [16]uint64 // a bit for each of the last tickets: Done has not come
}

// The defaults of a Budget.
const (
	defaultAllowance = 100
	defaultWindow    = 10 * time.Second
	defaultBlock     = 10
)

// Validate returns an error that names an invalid field.
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

// The ticket of a retry holds the number of the ticket, and the number of the
// block that paid for the retry, unless the retry is on credit.
const (
	ofRetry    = 1 << 63
	onCredit   = 1 << 62
	waitsLong  = 1 << 61 // on credit until Pace
	blockBits  = 29
	remembered = 1024 // how many of the last tickets have a bit in outstanding
)

// GrantsFirst implements [backoff.Budget]. It is true if the budget is valid.
func (b *Budget) GrantsFirst() bool { return b.Validate() == nil }

// Reserve implements [backoff.Budget].
func (b *Budget) Reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	if a.First() || b.Allowance < 0 {
		return t, 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	long := a.Wait > b.Client.every()
	if !long && b.takeToken(now) {
		return b.newTicket(uint64(b.block) % (1 << blockBits) << 32), 0, true
	}
	switch b.requestBlock(now); {
	case !b.hasToken(now) && !b.asking && !(b.failed && b.canBorrow(now)):
		return t, 0, false
	case long:
		return b.newTicket(onCredit | waitsLong), 0, true
	}
	return b.newTicket(onCredit), 0, true
}

// Pace implements [backoff.Budget]. A retry after a long wait needs its token
// soon. If there is none, Pace asks the store.
func (b *Budget) Pace(t backoff.Ticket) (next backoff.Ticket, wait time.Duration, ok bool) {
	if t.Word&waitsLong == 0 {
		return t, 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.requestBlock(now); b.asking && !b.hasToken(now) {
		wait = max(0, b.Client.maxTokenWait()-now.Sub(b.askedAt))
	}
	t.Word &^= waitsLong
	return t, wait, true
}

// hasToken reports whether there is a token in the current block.
func (b *Budget) hasToken(now time.Time) bool { return b.tokens > 0 && now.Before(b.expires) }

// takeToken takes a token of the current block. It reports whether there was
// one.
func (b *Budget) takeToken(now time.Time) bool {
	ok := b.hasToken(now)
	if ok {
		b.tokens--
	}
	return ok
}

// borrow lets a retry go without a token where the store has not said no: the
// store failed, or its answer is late, or it was asked for the first time in
// two windows. So a process never spends the rest of a block and borrows in the
// same window.
func (b *Budget) borrow(now time.Time) bool {
	late := now.Sub(b.askedAt) >= b.Client.timeout() && b.Client.timeout() > 0
	first := b.grantedAt.IsZero() || now.Sub(b.grantedAt) >= 2*b.window()
	if !b.failed && !(b.asking && (late || first)) || !b.canBorrow(now) {
		return false
	}
	b.borrowed++
	b.borrowedAt = now
	return true
}

// canBorrow reports whether less than a block has been borrowed.
func (b *Budget) canBorrow(now time.Time) bool { return b.debt(now) < b.blockSize() }

// debt returns how many tokens were borrowed. A debt is forgotten one Window
// after the last of them.
func (b *Budget) debt(now time.Time) int {
	if now.Sub(b.borrowedAt) >= b.window() {
		b.borrowed = 0
	}
	return b.borrowed
}

// newTicket returns the next ticket, with the given flags, and marks it as
// outstanding.
func (b *Budget) newTicket(flags uint64) backoff.Ticket {
	b.lastTicket++
	word, bit := b.ticketBit(uint64(b.lastTicket))
	*word |= bit
	return backoff.Ticket{Word: ofRetry | flags | uint64(b.lastTicket)}
}

// ticketBit returns the word and the bit that say whether a ticket is
// outstanding.
func (b *Budget) ticketBit(ticket uint64) (*uint64, uint64) {
	return &b.outstanding[uint32(ticket)/64%(remembered/64)], 1 << (ticket % 64)
}

// closeTicket marks a ticket as no longer outstanding. It reports whether the
// ticket was outstanding.
func (b *Budget) closeTicket(ticket uint64) bool {
	word, bit := b.ticketBit(ticket)
	if b.lastTicket-uint32(ticket) >= remembered || *word&bit == 0 {
		return false
	}
	*word &^= bit
	return true
}

// Confirm implements [backoff.Budget]. A retry that was granted on credit needs
// its token now.
func (b *Budget) Confirm(t backoff.Ticket) bool {
	if t.Word&onCredit == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.takeToken(now) && !b.borrow(now) {
		return false
	}
	b.closeTicket(t.Word)
	return true
}

// Done implements [backoff.Budget]. The token of a retry that was not sent is
// available again. A retry that was sent without Confirm is paid for now.
func (b *Budget) Done(t backoff.Ticket, r backoff.Result) {
	if t.Word&ofRetry == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closeTicket(t.Word) {
		return
	}
	block, now := t.Word>>32%(1<<blockBits), time.Now()
	switch sent := !r.NotSent; {
	case t.Word&onCredit == 0 && !sent && block == uint64(b.block)%(1<<blockBits):
		b.tokens++
	case t.Word&onCredit != 0 && sent && !b.takeToken(now):
		b.borrowed, b.borrowedAt = b.borrowed+1, now
	}
}

// requestBlock asks the store for a block, unless there is a token, or it was
// asked less than Every ago.
func (b *Budget) requestBlock(now time.Time) {
	c := b.Client
	if b.hasToken(now) || b.asking || !b.askedAt.IsZero() && now.Sub(b.askedAt) < c.every() {
		return
	}
	if !c.unlessClosed(c.beginCall) {
		b.failed = true
		return
	}
	b.asking, b.askedAt = true, now
	b.block++
	b.tokens = 0
	go b.fetchBlock(Claim{Block: b.blockName(c.id, b.block), Tokens: b.blockSize(), Allowance: b.allowance(), Window: b.window()}, now)
}

// blockName returns the name under which the store knows a block.
func (b *Budget) blockName(id string, block uint32) string {
	return id + "/" + strconv.FormatUint(uint64(block), 36)
}

// fetchBlock takes a block from the store.
func (b *Budget) fetchBlock(claim Claim, now time.Time) {
	c := b.Client
	defer c.endCall()
	var granted int
	err := c.call(func(ctx context.Context) (err error) {
		granted, err = c.Store.Take(ctx, b.Name, claim)
		return err
	})
	if b.addBlock(granted, err, claim, now) && !c.addHolder(b, now.Add(claim.Window)) {
		b.returnTokens(c.id) // the client was closed meanwhile
	}
}

// addBlock handles the answer to a claim. It reports whether the budget has
// tokens now.
func (b *Budget) addBlock(granted int, err error, claim Claim, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking, b.failed = false, err != nil
	if granted = min(granted, claim.Tokens); err != nil || granted <= 0 {
		return false
	}
	b.grantedAt, b.expires = now, now.Add(claim.Window)
	repaid := min(b.debt(time.Now()), granted)
	b.borrowed -= repaid
	b.tokens = granted - repaid
	return true
}

// returnTokens gives the rest of the current block back to the store.
func (b *Budget) returnTokens(id string) {
	b.mu.Lock()
	n, name := b.tokens, b.blockName(id, b.block)
	b.tokens = 0
	b.mu.Unlock()
	if n > 0 {
		_ = b.Client.call(func(ctx context.Context) error { return b.Client.Store.Give(ctx, b.Name, name, n) })
	}
}

// allowance returns Allowance or its default.
func (b *Budget) allowance() int { return cmp.Or(b.Allowance, defaultAllowance) }

// window returns Window or its default.
func (b *Budget) window() time.Duration { return cmp.Or(max(0, b.Window), defaultWindow) }

// blockSize returns Block or its default.
func (b *Budget) blockSize() int { return cmp.Or(max(0, b.Block), defaultBlock) }
