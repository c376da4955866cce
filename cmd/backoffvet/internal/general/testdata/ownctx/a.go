package ownctx

import (
	"context"
	"errors"
	"log"
	"time"
)

func anything(ctx context.Context, call func(context.Context) error) error {
	var err error
	for range 5 {
		if err = call(ctx); err == nil { // want "when ctx has ended"
			return nil
		}
		log.Print(err)
	}
	return err
}

func deadlines(ctx context.Context, call func(context.Context) error) error {
	for i := 0; ; i++ {
		err := call(ctx) // want "when ctx has ended"
		if err == nil || i == 5 || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

func asks(ctx context.Context, call func(context.Context) error) error {
	for i := 0; ; i++ {
		err := call(ctx)
		if err == nil || i == 5 || ctx.Err() != nil {
			return err
		}
	}
}

func perAttempt(ctx context.Context, call func(context.Context) error) {
	for range 5 {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := call(attempt)
		cancel()
		if err == nil {
			return
		}
	}
}
