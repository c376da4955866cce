package handmade

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff"
)

var _ backoff.Policy

func same(ctx context.Context, call func(context.Context) error) error {
	var err error
	for i := 0; i < 3; i++ { // want "written by hand"
		if err = call(ctx); err == nil {
			return nil
		}
		if i < 3-1 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
			}
		}
	}
	return err
}

func doubling(ctx context.Context, call func(context.Context) error) (err error) {
	for i := range 5 { // want "written by hand"
		err = call(ctx)
		if err == nil {
			return nil
		}
		if i < 5-1 {
			time.Sleep(100 * time.Millisecond << i)
		}
	}
	return err
}

func looksAtTheError(ctx context.Context, call func(context.Context) error) error {
	var err error
	for i := 0; i < 3; i++ {
		if err = call(ctx); err == nil {
			return nil
		}
		if errors.Is(err, context.Canceled) {
			return err
		}
		if i < 3-1 {
			time.Sleep(time.Second)
		}
	}
	return err
}

func withoutAContext(call func() error) error {
	var err error
	for i := 0; i < 3; i++ {
		if err = call(); err == nil {
			return nil
		}
		if i < 3-1 {
			time.Sleep(time.Second)
		}
	}
	return err
}
