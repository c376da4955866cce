// Package dskit has loops of dskit's backoff as programs make them.
package dskit

import (
	"context"
	"errors"
	"time"

	"github.com/grafana/dskit/backoff"

	"corpus/world"
)

// Sites are the call sites by their names.
var Sites = map[string]world.Site{
	"commit": commit, "withError": withError, "branches": branches, "ready": ready, "configured": configured, "short": short,
	"counted": counted, "watch": watch, "named": named, "constant": constant,
	"inHead": inHead, "forgetful": forgetful, "afterwards": afterwards,
}

// commit forgets why it failed.
func commit(ctx context.Context, s *world.Service) error {
	b := backoff.New(ctx, backoff.Config{
		MinBackoff: 100 * time.Millisecond,
		MaxBackoff: 6400 * time.Millisecond,
		MaxRetries: 8,
	})
	var lastErr error
	b.Reset()
	for b.Ongoing() {
		err := s.Call(ctx)
		if err == nil {
			return nil
		}
		lastErr = err
		b.Wait()
	}
	return lastErr
}

func withError(ctx context.Context, s *world.Service) error {
	boff := backoff.New(ctx, backoff.Config{MinBackoff: time.Second, MaxBackoff: 8 * time.Second, MaxRetries: 5})
	for boff.Ongoing() {
		if err := s.Call(ctx); err == nil {
			break
		}
		boff.Wait()
	}
	return boff.Err()
}

// branches waits at the ends of its branches.
func branches(ctx context.Context, s *world.Service) error {
	config := backoff.Config{
		MinBackoff: 500 * time.Millisecond,
		MaxBackoff: 4 * time.Second,
		MaxRetries: 6,
	}
	backoff := backoff.New(ctx, config)
	for backoff.Ongoing() {
		_, err := s.Fetch(ctx)
		if errors.Is(err, world.ErrGone) {
			return err
		}
		if err != nil {
			backoff.Wait()
			continue
		}
		return nil
	}
	return backoff.Err()
}

// ready has no error.
func ready(ctx context.Context, s *world.Service) error {
	retries := backoff.New(context.Background(), backoff.Config{MinBackoff: time.Second, MaxBackoff: 16 * time.Second, MaxRetries: 4})
	for retries.Ongoing() {
		if s.Ping() == nil {
			return nil
		}
		retries.Wait()
	}
	return world.ErrGaveUp
}

type client struct {
	s   *world.Service
	cfg struct{ Backoff backoff.Config }
}

func (c *client) run(ctx context.Context) error {
	b := backoff.New(ctx, c.cfg.Backoff)
	var err error
	for b.Ongoing() {
		if err = c.s.Call(ctx); err == nil {
			return nil
		}
		b.Wait()
	}
	return errors.Join(err, b.ErrCause())
}

func configured(ctx context.Context, s *world.Service) error {
	c := &client{s: s}
	c.cfg.Backoff = backoff.Config{MinBackoff: 200 * time.Millisecond, MaxBackoff: 3200 * time.Millisecond, MaxRetries: 7}
	return c.run(ctx)
}

// short has a configuration with one wait, as tests do.
func short(ctx context.Context, s *world.Service) error {
	c := &client{s: s}
	c.cfg.Backoff = backoff.Config{MinBackoff: time.Nanosecond, MaxBackoff: time.Nanosecond, MaxRetries: 7}
	return c.run(ctx)
}

func counted(ctx context.Context, s *world.Service) error {
	b := backoff.New(ctx, backoff.Config{MinBackoff: 100 * time.Millisecond, MaxBackoff: 800 * time.Millisecond, MaxRetries: 6})
	n := 0
	for b.Ongoing() {
		if b.NumRetries() != n {
			return errors.New("another number of retries")
		}
		n++
		err := s.Call(ctx)
		if err != nil {
			b.Wait()
			continue
		}
		return nil
	}
	return b.Err()
}

// watch goes on at once after a success, three times.
func watch(ctx context.Context, s *world.Service) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	b := backoff.New(ctx, backoff.Config{MinBackoff: time.Second, MaxBackoff: 32 * time.Second})
	pages := 0
	for b.Ongoing() {
		_, err := s.Fetch(ctx)
		if err != nil {
			b.Wait()
			continue
		}
		b.Reset()
		if pages++; pages == 3 {
			return nil
		}
	}
	return b.Err()
}

// named calls the context otherwise.
func named(parent context.Context, s *world.Service) error {
	const retries = 3
	b := backoff.New(parent, backoff.Config{MinBackoff: 2 * time.Second, MaxBackoff: time.Minute, MaxRetries: retries})
	var errs []error
	for b.Ongoing() {
		ctx, cancel := context.WithTimeout(parent, time.Second)
		err := s.Call(ctx)
		cancel()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		b.Wait()
	}
	return errors.Join(append(errs, b.Err())...)
}

func constant(ctx context.Context, s *world.Service) error {
	b := backoff.New(ctx, backoff.Config{MinBackoff: 3 * time.Second, MaxBackoff: 3 * time.Second, MaxRetries: 3})
	for b.Ongoing() {
		err := s.Call(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, world.ErrGone):
			return err
		}
		b.Wait()
	}
	return b.Err()
}

// forgetful does not wait after every failure.
func forgetful(ctx context.Context, s *world.Service) error {
	b := backoff.New(ctx, backoff.Config{MinBackoff: time.Second, MaxBackoff: time.Minute, MaxRetries: 5})
	for b.Ongoing() {
		err := s.Call(ctx)
		if errors.Is(err, world.ErrGone) {
			return err
		}
		if err == nil {
			return nil
		}
		if s == nil {
			continue
		}
		b.Wait()
	}
	return b.Err()
}

// afterwards does something between the wait and the next attempt.
func afterwards(ctx context.Context, s *world.Service) error {
	b := backoff.New(ctx, backoff.Config{MinBackoff: time.Second, MaxBackoff: time.Minute, MaxRetries: 5})
	var lastErr error
	for b.Ongoing() {
		err := s.Call(ctx)
		if err == nil {
			return nil
		}
		b.Wait()
		lastErr = err
	}
	return lastErr
}

// inHead waits in the head of its loop.
func inHead(ctx context.Context, s *world.Service) error {
	var (
		cfg = backoff.Config{MinBackoff: time.Second, MaxBackoff: 4 * time.Second, MaxRetries: 4}
		b   = backoff.New(ctx, cfg)
		err error
	)
	for ; b.Ongoing(); b.Wait() {
		if err = s.Call(ctx); errors.Is(err, world.ErrGone) {
			continue
		}
		if err == nil {
			break
		}
	}
	return err
}
