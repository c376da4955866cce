package fix

import (
	"context"
	"time"
)

type value struct{}

func sleeps(ctx context.Context, call func(context.Context) (string, error), delay time.Duration) (string, error) {
	for {
		v, err := call(ctx)
		if err == nil {
			return v, nil
		}
		time.Sleep(delay) // want "for ctx.Done"
	}
}

func named(ctx context.Context, call func(context.Context) error) (n int, ok bool, err error) {
	for i := 0; i < 3; i++ {
		if i > 0 {
			time.Sleep(2 * time.Second) // want "for ctx.Done"
		}
		if err = call(ctx); err == nil {
			break
		}
	}
	return n, ok, err
}

// The zero value of the first result would need its type's name.
func ofAStruct(ctx context.Context, call func(context.Context) error) (value, error) {
	for {
		if err := call(ctx); err == nil {
			return value{}, nil
		}
		time.Sleep(time.Second) // want "for ctx.Done"
	}
}

// What it returns does not say that it failed.
func returnsNothing(ctx context.Context, call func(context.Context) error) {
	for call(ctx) != nil {
		time.Sleep(time.Second) // want "for ctx.Done"
	}
}
