package deafsleep

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
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
	for call(ctx) != nil && ctx.Err() == nil {
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

func secondPhase(ctx context.Context, ready chan bool, call func(context.Context) error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ready:
	}
	for {
		if call(ctx) == nil {
			return nil
		}
		time.Sleep(5 * time.Second) // want "for ctx.Done"
	}
}

// It gives back what it has, whoever waits.
func afterTheEnd(ctx context.Context, call func(context.Context) error) {
	<-ctx.Done()
	for call(ctx) != nil {
		time.Sleep(5 * time.Second)
	}
}

type server struct {
	ctx    context.Context
	done   chan struct{}
	other  chan struct{}
	closed atomic.Bool
	dial   func() (io.Reader, error)
}

func (s *server) serve() {
	select {
	case <-s.done:
		return
	case <-time.After(time.Minute):
	}
}

func (s *server) end() { close(s.done) }

func (s *server) hands(call func(context.Context) error) error {
	for {
		err := call(s.ctx)
		if err == nil {
			return nil
		}
		time.Sleep(5 * time.Second) // want "for s.ctx.Done"
	}
}

func (s *server) connects() io.Reader {
	for {
		r, err := s.dial()
		if err == nil {
			return r
		}
		time.Sleep(5 * time.Second) // want "for s.done, too"
	}
}

func (s *server) asksAChannel(stop <-chan struct{}) io.Reader {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if r, err := s.dial(); err == nil {
			return r
		}
		time.Sleep(5 * time.Second) // want "for stop, too"
	}
}

func (s *server) asksAFlag() io.Reader {
	for !s.closed.Load() {
		if r, err := s.dial(); err == nil {
			return r
		}
		time.Sleep(5 * time.Second) // want "where s.closed.Load() changes"
	}
	return nil
}

// It is bounded, and nothing in it speaks of an end.
func (s *server) connectsAFewTimes() (r io.Reader, err error) {
	for range 3 {
		if r, err = s.dial(); err == nil {
			return r, nil
		}
		time.Sleep(5 * time.Second)
	}
	return r, err
}

// It is what runs at the end.
func (s *server) Close(last func() error) {
	for last() != nil {
		time.Sleep(5 * time.Second)
	}
}

type quiet struct {
	done chan struct{}
	dial func() error
}

// Nobody waits for done.
func (q *quiet) connects() {
	for q.dial() != nil {
		time.Sleep(5 * time.Second)
	}
}
