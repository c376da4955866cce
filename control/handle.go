package control

import (
	"context"
	"sync/atomic"

	"github.com/gobackoff/backoff"
)

// A Handle is a policy that a [Panel] can change while the program runs;
// [Panel.Policy] makes one, and the zero value cannot be used. Keep it and use
// it as the policy: it is a [backoff.Doer]. A change holds for the calls that
// begin after it; those under way, and their waits, end as they began. A call
// that succeeds costs an atomic load and about a nanosecond more than under the
// policy itself, and allocates nothing. A Handle is safe for concurrent use.
//
// The Transport of backoffhttp and the interceptors of contrib/backoffgrpc take
// a Handle as their Control. For a [guard.Service], DoValue, Start, Delay and the
// like take [Handle.Policy]:
//
//	err := service.Do(ctx, *searching.Policy(), search)
//
//	page, err := backoff.DoValue(ctx, searching.Policy(), fetch)
type Handle struct {
	_ [0]func() // no unkeyed literals, no ==

	base  backoff.Policy // as the program has it
	state atomic.Pointer[state]
}

// A state is what holds until the next change.
type state struct {
	policy backoff.Policy                     // for calls
	final  func(context.Context, error) error // what makes the error of a call permanent; nil unless retries are off
	paused bool                               // retries are off
	runs   backoff.Policy                     // for Supervise: with its retries
	spec   *change                            // in runs; nil if there is none
	over   chan struct{}                      // closed by the next change
}

// Policy registers a policy under its name, and returns the handle to use it
// by. Policies of the same name are changed together; one without a name is
// changed only with all others. Make handles once, where policies are made: a
// panel does not forget them.
func (p *Panel) Policy(policy backoff.Policy) *Handle {
	h := &Handle{base: policy}
	p.register(target{name: policy.Name, what: []string{Retries, Spec}, base: &h.base, keys: noKeys, apply: h.apply})
	return h
}

// Do calls op under the policy as it is now: see [backoff.Policy.Do].
//
// While retries are off, Do makes one attempt. If that fails in a way that a
// policy retries, the error is a [*backoff.Error] which says that retries are
// off, and which is permanent: no policy around the call retries it.
func (h *Handle) Do(ctx context.Context, op func(context.Context) error) error {
	s := h.state.Load()
	err := s.policy.Do(ctx, op)
	if err != nil && s.final != nil {
		err = s.final(ctx, err)
	}
	return err
}

// Policy returns the policy as it is now, which must not be changed. It is the
// same pointer until it changes. While retries are off, it is limited to one
// attempt. Then its errors are not permanent to policies around it, unlike those of
// [Handle.Do].
func (h *Handle) Policy() *backoff.Policy { return &h.state.Load().policy }

// Current is for clients that take a Handle: the policy as it is now, and a
// function that makes the error of a call under a context permanent. The function
// is nil unless retries are off. Both are of the same moment.
func (h *Handle) Current() (policy *backoff.Policy, final func(context.Context, error) error) {
	s := h.state.Load()
	return &s.policy, s.final
}

// apply applies the overrides in force.
func (h *Handle) apply(p *Panel) {
	next := &state{policy: h.base, paused: p.off(Retries, h.base.Name), over: make(chan struct{})}
	if a := p.overrides[Target{What: Spec, Name: h.base.Name}]; a != nil && a.spec.loosens(h.base) == nil {
		next.spec = a.spec
		next.policy = a.spec.onto(h.base)
	}
	next.runs = next.policy
	if next.paused {
		next.final = h.final
		next.policy.MaxAttempts, next.policy.ByClass = 1, nil
	}
	before := h.state.Load()
	if before != nil && before.spec == next.spec && before.paused == next.paused {
		return // what was set for all others does not restart the runs of Supervise
	}
	h.state.Store(next)
	if before != nil {
		close(before.over)
	}
}

// final makes the error of a call permanent while retries are off. Without it,
// the error of a policy that is limited to one attempt invites the policies around
// it to retry.
func (h *Handle) final(ctx context.Context, err error) error {
	gave, ok := err.(*backoff.Error)
	if !ok || gave == nil || !gave.RetryableError() {
		return err
	}
	made := *gave
	made.Note = "retries are switched off"
	return backoff.Policy{MaxAttempts: -1, Classify: h.base.Classify}.GiveUp(ctx, made)
}
