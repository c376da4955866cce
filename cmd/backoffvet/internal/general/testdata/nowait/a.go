package nowait

import (
	"context"
	"errors"
	"log"
	"syscall"
	"time"
)

func decodes(get func() (string, error), decode func(string) error) error {
	for {
		v, err := get()
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		if err := decode(v); err != nil { // want "failure of decode"
			log.Print(err)
			continue
		}
		return nil
	}
}

type waiter struct{}

func (*waiter) Ongoing() bool { return true }
func (*waiter) Wait()         {}

func watches(w *waiter, watch func() error) {
	for w.Ongoing() { // want "calls w.Wait"
		if err := watch(); err != nil {
			continue
		}
	}
}

func waits(w *waiter, watch func() error) {
	for w.Ongoing() {
		if watch() == nil {
			return
		}
		w.Wait()
	}
}

func interrupted(read func() error) error {
	for {
		err := read()
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
}

func renews(call, renew func() error) error {
	for {
		err := call()
		if err == nil {
			return nil
		}
		if err.Error() == "expired" {
			_ = renew()
			continue
		}
		time.Sleep(time.Second)
	}
}

func exceptTheLast(call func() error) error {
	var err error
	for i := 0; i < 3; i++ {
		if err = call(); err == nil {
			return nil
		}
		if i < 2 {
			time.Sleep(time.Second)
		}
	}
	return err
}

func askedByItsContext(ctx context.Context, watch func(context.Context) (int, error), follow func(context.Context, int) error) {
	for ctx.Err() == nil {
		events, err := watch(ctx)
		if err != nil {
			sleep(ctx, time.Second)
			continue
		}
		if err := follow(ctx, events); err != nil { // want "goes on at once"
			continue
		}
	}
}

func pacedByATicker(ctx context.Context, ticker *time.Ticker, get, load func(context.Context) error) {
	for {
		select {
		case <-ticker.C:
			if err := get(ctx); err != nil {
				continue
			}
			if err := load(ctx); err != nil {
				time.Sleep(time.Second)
			}
		case <-ctx.Done():
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

type limiter interface {
	Wait(ctx context.Context) (int, error)
}

type ours interface {
	Ongoing() bool
	Wait()
}

func decodesWithoutWait(ctx context.Context, b ours, query, decode func(context.Context) error) {
	for b.Ongoing() {
		if err := query(ctx); err != nil {
			b.Wait()
			continue
		}
		if err := decode(ctx); err != nil { // want "goes on at once"
			continue
		}
		b.Wait()
	}
}

func limited(ctx context.Context, l limiter, list func(context.Context) error) {
	for {
		if ctx.Err() != nil {
			return
		}
		_, err := l.Wait(ctx)
		if err != nil {
			continue
		}
		if err := list(ctx); err != nil {
			time.Sleep(time.Second)
		}
	}
}

func accepts(accept struct{ Accept func() (int, error) }, handle func(context.Context, int) error) {
	for {
		conn, err := accept.Accept()
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		if err := handle(context.Background(), conn); err != nil {
			continue
		}
	}
}
