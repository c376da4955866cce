package hedge

import (
	"context"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge/internal/lazyctx"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
	"github.com/gobackoff/backoff/internal/fault"
)

// call is what a race and its pacing both know of a hedged call.
type call struct {
	ctx    context.Context // context of the call
	parent context.Context // context of the attempts: ctx, with the key
	hedge  *Hedge
	runner runner

	attempts   [mostAttempts]*attempt // attempts sent
	number     int                    // number of attempts sent
	running    int                    // number of attempts that have no result yet
	unsent     int                    // number of attempts that a breaker refused
	last       error                  // error of the newest attempt that no breaker refused, or of the first attempt; nil if none failed
	class      backoff.Class          // class of last
	refusal    error                  // newest refusal by a breaker
	retryAfter time.Duration          // wait that the server asked for
}

// attempt is one attempt, and its context.
type attempt struct {
	lazyctx.Context
	number int
	ticket backoff.Ticket
	sent   time.Time
	over   bool // the attempt has returned; guarded by the race
}

// attemptKey is the key by which a context finds its attempt.
type attemptKey struct{}

// Value implements context.Context.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// failure is the error of an attempt, and what it means.
type failure struct {
	backoff.Decision // decision after one attempt of many
	err              error
	told             bool       // the server said when to retry
	says             fault.Says // what it says to a hedge
}

// judge returns what the error of an attempt means.
func (h *Hedge) judge(err error) failure {
	rules := backoff.Policy{MaxAttempts: -1, MaxRetryAfter: h.MaxRetryAfter, Classify: h.Classify}
	_, told := backoff.RetryAfterOf(err)
	d := rules.Decide(1, err)
	r := d.Result()
	whose := fault.Of(r.NotSent, r.Canceled, r.TimedOut, r.Failed, evidence.Class(r.Class))
	return failure{Decision: d, err: err, told: told, says: whose.Row().Hedge}
}

// refused reports whether a breaker refused the attempt.
func (f *failure) refused() bool { return f.says == fault.Unmade }

// permanent reports whether the failure ends the call. What a breaker or a budget inside
// the operation refused says nothing of the attempts under way.
func (c *call) permanent(f *failure) bool {
	return f.Class == backoff.ClassPermanent && !f.refused() && (c.running == 0 || !errtree.Is(f.err, backoff.ErrBudget))
}

// policy returns the Policy that makes the error of the call.
func (c *call) policy() backoff.Policy {
	h := c.hedge
	p := backoff.Policy{
		Name:        h.Name,
		MaxAttempts: h.maxAttempts(),
		Idempotency: h.Idempotency,
		Classify:    func(error) backoff.Class { return c.class }, // h.Classify has said so
	}
	if h.Idempotency == backoff.Keyed {
		p.Idempotency = underKey(backoff.IdempotencyKey(c.parent))
	}
	return p
}

// underKey is the Idempotency of a call with this key.
type underKey string

// Repeatable implements [backoff.Idempotency].
func (underKey) Repeatable(context.Context, backoff.Class) bool { return true }

// MadeKey says that another call, under another key, must not repeat this one.
func (k underKey) MadeKey() string { return string(k) }
