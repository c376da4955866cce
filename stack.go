package backoff

import "context"

// Stack returns the doers around one another, the outermost first.
// Stack(breaker, policy) asks the breaker once per call, Stack(policy, breaker)
// once per attempt. An empty Stack just calls the operation, and a Stack in
// another one counts as its doers.
//
// If a doer refuses a call, the policy inside it never runs. Stack then calls
// [Policy.Refused], or the method of that name of another Doer, so a policy in a
// Stack reports the end of every call.
func Stack(outermost ...Doer) Doer {
	doers := make([]Doer, 0, max(4, len(outermost))) // a cache line that nobody writes to
	for _, d := range outermost {
		switch d := d.(type) {
		case Policy:
			doers = append(doers, &d)
		case *stack:
			doers = append(doers, d.doers...)
		case *mixedStack:
			doers = append(doers, d.doers...)
		default:
			doers = append(doers, d)
		}
	}
	for _, d := range doers {
		if !isOurs(d) {
			return &mixedStack{doers}
		}
	}
	return &stack{doers}
}

// stack is what Stack returns if through knows the types of all doers.
type stack struct{ doers []Doer }

func (s *stack) Do(ctx context.Context, op func(context.Context) error) error {
	if len(s.doers) == 0 {
		return op(ctx)
	}
	return through(ctx, s.doers[0], s.doers[1:], op)
}

// mixedStack is what Stack returns otherwise.
type mixedStack struct{ doers []Doer }

func (s *mixedStack) Do(ctx context.Context, op func(context.Context) error) error {
	return throughAny(ctx, s.doers[0], s.doers[1:], op)
}

// isOurs reports whether through knows the type of d.
func isOurs(d Doer) bool {
	switch d.(type) {
	case *Policy, Policy, *Breaker, *stack:
		return true
	}
	return false
}

// through runs op under d, and within d under the doers of inner.
func through(ctx context.Context, d Doer, inner []Doer, op func(context.Context) error) error {
	if len(inner) == 0 {
		return throughOne(ctx, d, op)
	}
	reached := false
	err := throughOne(ctx, d, func(ctx context.Context) error {
		reached = true
		if p, ok := inner[0].(*Policy); ok && len(inner) == 1 {
			return p.do(ctx, op) // as through would, for most stacks
		}
		return through(ctx, inner[0], inner[1:], op)
	})
	if err != nil && !reached {
		notifyRefused(ctx, inner, err)
	}
	return err
}

// throughOne runs op under d. It calls the types of this package by name: passed
// to an interface, op would escape to the heap with everything that it captures.
func throughOne(ctx context.Context, d Doer, op func(context.Context) error) error {
	switch known := d.(type) {
	case *Policy:
		return known.do(ctx, op)
	case *Breaker:
		return known.Do(ctx, op)
	case *stack:
		return known.Do(ctx, op)
	}
	return throughValue(ctx, d, op)
}

// throughValue is throughOne for a Policy. It is not inlined, because a call that
// waits has no room for a policy on its stack.
//
//go:noinline
func throughValue(ctx context.Context, d Doer, op func(context.Context) error) error {
	return d.(Policy).Do(ctx, op)
}

// throughAny is through for doers of any type.
func throughAny(ctx context.Context, d Doer, inner []Doer, op func(context.Context) error) error {
	if len(inner) == 0 {
		return d.Do(ctx, op)
	}
	var err error
	reached := false
	if p, ok := d.(*Patience); ok {
		err = p.doAround(ctx, inner, op, &reached)
	} else {
		err = d.Do(ctx, func(ctx context.Context) error {
			reached = true
			return throughAny(ctx, inner[0], inner[1:], op)
		})
	}
	if err != nil && !reached {
		notifyRefused(ctx, inner, err)
	}
	return err
}

// notifyRefused tells the first policy of inner that a doer around it refused a
// call with err.
//
//go:noinline
func notifyRefused(ctx context.Context, inner []Doer, err error) {
	for _, d := range inner {
		if p, ok := d.(interface{ Refused(context.Context, error) }); ok {
			p.Refused(ctx, err)
			return
		}
	}
}
