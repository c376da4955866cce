// Package hostile is code at which no rule may panic, and which it must not misread.
package hostile

import (
	"context"
	. "errors"
	"net/http"
	"time"

	retry "github.com/gobackoff/backoff"
	. "github.com/gobackoff/backoff/hedge"
)

type (
	alias          = retry.Policy
	myRun          = *retry.Run
	wrapper        struct{ alias }
	fetcher[T any] struct{ policy alias }
	do             func(context.Context, func(context.Context) error) error
)

var (
	policy      = alias{}
	a, b        = two()
	cyclic      = cyclicOther
	cyclicOther = func() alias { return alias{} }
	errBusy     = New("busy")
)

func two() (alias, error) { return alias{}, nil }

func work(ctx context.Context) error                     { return ctx.Err() }
func workOf[T any](ctx context.Context) (t T, err error) { return t, ctx.Err() }

func (f *fetcher[T]) fetch(ctx context.Context) (T, error) {
	return retry.DoValue(ctx, f.policy, func(context.Context) (T, error) {
		return workOf[T](ctx) // want `ignores its own context`
	})
}

func (f fetcher[T]) method(ctx context.Context) error { return work(ctx) }

func (f fetcher[T]) byMethod(ctx context.Context) error { return f.policy.Do(ctx, f.method) }

func generic(ctx context.Context) (int, error) {
	return retry.DoValue[int](ctx, alias{}, workOf[int])
}

func methodValue(ctx context.Context) error {
	run := do(alias{}.Do)
	_ = run(ctx, func(context.Context) error { return work(ctx) })
	return (alias).Do(alias{}, ctx, work)
}

func methodExpression(ctx context.Context) error {
	return alias.Do(alias{}, ctx, func(context.Context) error { return nil })
}

func embedded(ctx context.Context, w wrapper) error {
	return w.Do(ctx, func(context.Context) error {
		return work(ctx) // want `ignores its own context`
	})
}

func dotted(ctx context.Context, h *Hedge) (int, error) {
	return Value(ctx, h, func(context.Context) (int, error) {
		return workOf[int](ctx) // want `ignores its own context`
	}, nil)
}

// context is shadowed, and so is the library.
func shadowed(ctx context.Context) error {
	retry := struct{ Do func(any) error }{}
	errors, max := 1, 2
	_ = errors + max
	return retry.Do(ctx)
}

func shadowedErrors(ctx context.Context) bool {
	err := alias{}.Do(ctx, work)
	errors := 1
	return err == errBusy && errors == 1 // want `never equal`
}

func results(ctx context.Context) (p alias, r myRun, err error) {
	p.Classify, p.Observer = nil, nil
	for range p.Start(ctx).Attempts() {
		err = work(ctx) // want `this loop ignores`
	}
	r = p.Start(ctx)
	if _, ok := r.Begin(0); ok {
	}
	return p, r, ctx.Err()
}

func labels(ctx context.Context, r myRun) error {
loop:
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		default:
			for range r.Attempts() {
				continue loop
			}
		}
	}
}

func selfReferring(ctx context.Context) error {
	var op func(context.Context) error
	op = func(ctx context.Context) error { return op(ctx) }
	p := alias{}
	p = p
	return p.Do(ctx, op)
}

func called(ctx context.Context) error {
	return func() alias { return alias{} }().Do(ctx, func(ctx context.Context) error {
		_, err := http.NewRequestWithContext(ctx, func() string { return "POST" }(), "", nil)
		return err
	})
}

func nilArguments(ctx context.Context) error {
	_, _ = Value[int](ctx, nil, nil, nil)
	return (&alias{Classify: retry.RetryIf(nil)}).Do(ctx, nil)
}

func nested() (x struct{ p struct{ alias } }) {
	x.p.alias.MaxAttempts = len("a") + 1
	x.p.MaxAttempts, x.p.MaxElapsed = 1+len("b"), time.Second
	return
}

// A constant with neither type nor value repeats the one before.
const (
	first = iota
	second
)
