package runtwice

import (
	"context"

	"github.com/gobackoff/backoff"
)

var (
	policy backoff.Policy
	shared = policy.Start(context.Background())
)

func send(ctx context.Context, message string) error { return ctx.Err() }

func ofThePackage(message string) error {
	for ctx := range shared.Attempts() { // want `shared is made once for all calls: a Run is one call`
		if send(ctx, message) == nil {
			return nil
		}
	}
	return shared.Err()
}

func forEachMessage(ctx context.Context, messages []string) error {
	r := policy.Start(ctx)
	for _, message := range messages {
		for ctx := range r.Attempts() { // want `r is made before the loop around this one: .* Start a new one, or call r.Reset`
			if send(ctx, message) == nil {
				break
			}
		}
	}
	return r.Err()
}

func oneAfterTheOther(ctx context.Context) error {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		if send(ctx, "a") == nil {
			break
		}
	}
	if ctx.Err() == nil {
		for ctx := range r.Attempts() { // want `the attempts of r have been made before`
			if send(ctx, "b") == nil {
				return nil
			}
		}
	}
	return r.Err()
}

func inItself(ctx context.Context) error {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		for range r.Attempts() { // want `r is made before the loop around this one`
			r.Fail(send(ctx, "a"))
		}
	}
	return r.Err()
}

// Those below are right.

func startsEach(ctx context.Context, messages []string) error {
	for _, message := range messages {
		r := policy.Start(ctx)
		for ctx := range r.Attempts() {
			if send(ctx, message) == nil {
				break
			}
		}
		if r.Err() != nil {
			return r.Err()
		}
	}
	return nil
}

func resets(ctx context.Context, messages []string) {
	r := policy.Start(ctx)
	for _, message := range messages {
		r.Reset()
		for ctx := range r.Attempts() {
			r.Fail(send(ctx, message))
		}
	}
	r.Reset()
	for ctx := range r.Attempts() {
		r.Fail(send(ctx, "end"))
	}
	r = policy.Start(ctx)
	for ctx := range r.Attempts() {
		r.Fail(send(ctx, "really"))
	}
}

func either(ctx context.Context, first bool, n int) error {
	r := policy.Start(ctx)
	if first {
		for ctx := range r.Attempts() {
			r.Fail(send(ctx, "a"))
		}
	} else {
		for ctx := range r.Attempts() {
			r.Fail(send(ctx, "b"))
		}
	}
	s := policy.Start(ctx)
	switch n {
	case 0:
		for ctx := range s.Attempts() {
			s.Fail(send(ctx, "c"))
		}
	default:
		for ctx := range s.Attempts() {
			s.Fail(send(ctx, "d"))
		}
	}
	return s.Err()
}

func returns(ctx context.Context, first bool) error {
	r := policy.Start(ctx)
	if first {
		for ctx := range r.Attempts() {
			r.Fail(send(ctx, "a"))
		}
		return r.Err()
	}
	for ctx := range r.Attempts() {
		r.Fail(send(ctx, "b"))
	}
	return r.Err()
}

func once(ctx context.Context, messages <-chan string) error {
	r := policy.Start(ctx)
	for message := range messages {
		if message == "" {
			continue
		}
		for ctx := range r.Attempts() {
			r.Fail(send(ctx, message))
		}
		return r.Err()
	}
	return nil
}

func ofEach(runs []*backoff.Run) {
	for _, r := range runs {
		for ctx := range r.Attempts() {
			r.Fail(send(ctx, "a"))
		}
	}
}

func byHand(ctx context.Context) error {
	r := policy.Start(ctx)
	attempt, ok := r.Begin(0)
	for ok {
		pause, _ := r.Retry(send(attempt, "a"))
		attempt, ok = r.Begin(pause)
	}
	return r.Err()
}
