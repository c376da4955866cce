package deafsleep

import (
	"context"
	"net/http"
	"time"
)

func sleeps(ctx context.Context, call func(context.Context) (string, error), delay time.Duration) (string, error) {
	for {
		v, err := call(ctx)
		if err == nil {
			return v, nil
		}
		time.Sleep(delay) // want "for ctx.Done"
	}
}

func receives(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		<-time.After(time.Minute) // want "for ctx.Done"
	}
}

func ofARequest(r *http.Request, call func(*http.Request) error) {
	for call(r) != nil {
		time.Sleep(time.Second) // want `for r.Context().Done`
	}
}

func byAHelper(ctx context.Context, call func(context.Context) error) {
	for call(ctx) != nil {
		pause(time.Second) // want "for ctx.Done"
	}
}

func pause(d time.Duration) { time.Sleep(d) }

func hears(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			if !timer.Stop() {
				<-timer.C
			}
			return ctx.Err()
		case <-timer.C:
		}
	}
}

func cleansUp(ctx context.Context, call func(context.Context) error) {
	<-ctx.Done()
	for call(context.Background()) != nil {
		time.Sleep(time.Second)
	}
}

func isShort(ctx context.Context, call func(context.Context) error) {
	step := 50 * time.Millisecond
	for call(ctx) != nil {
		time.Sleep(step)
	}
}

func sends(ctx context.Context, items []string, send func(context.Context, string) error) {
	for _, item := range items {
		_ = send(ctx, item)
		time.Sleep(time.Second)
	}
}

func inTheBackground(ctx context.Context, call func() error) {
	go func() {
		for call() != nil {
			time.Sleep(time.Second)
		}
	}()
	<-ctx.Done()
}
