package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

// A conn is a connection to a broker.
type conn interface {
	Publish(ctx context.Context, message string) error // nil: the broker has confirmed it
	Closed() <-chan error                              // gets the reason when the connection is lost
	Close() error
}

// A link lends its connection to publishers. While there is none, they wait.
type link struct {
	conns chan conn
	why   atomic.Pointer[error] // why it could not dial last
}

// keep holds a connection until ctx ends.
func (l *link) keep(ctx context.Context, dial func(context.Context) (conn, error)) error {
	policy := backoff.Policy{Name: "broker", Schedule: backoff.Exponential{Max: 5 * time.Second}}
	loop := backoff.Supervisor{Policy: policy, ResetAfter: time.Second / 2} // less than a connection lasts
	return loop.RunReady(ctx, func(ctx context.Context, ready func()) error {
		c, err := dial(ctx) // must end before ResetAfter
		if err != nil {
			l.why.Store(&err)
			return err
		}
		defer c.Close()
		ready()
		for {
			select {
			case l.conns <- c: // to a publisher
			case err := <-c.Closed():
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

var publishing = backoff.Policy{
	Name:           "publish",
	MaxAttempts:    -1,              // the deadline of the caller ends it
	AttemptTimeout: 4 * time.Second, // of a wait for a connection, and a confirmation that never comes
	Schedule:       backoff.Exponential{Max: time.Second},
}

// publish returns when the broker has the message, or when ctx ends.
func (l *link) publish(ctx context.Context, message string) error {
	return publishing.Do(ctx, func(ctx context.Context) error {
		select {
		case c := <-l.conns:
			return c.Publish(ctx, message)
		case <-ctx.Done():
			if why := l.why.Load(); why != nil {
				return fmt.Errorf("no connection: %w", *why) // one marked as Permanent ends the call
			}
			return ctx.Err()
		}
	})
}

// A fakeBroker is up for 10 s, and then down for 10 s, in which it has no connections.
type fakeBroker struct {
	began time.Time
	mu    sync.Mutex
	dials int
	has   map[string]int
}

type fakeConn struct {
	*fakeBroker
	closed chan error
}

// left returns how long the broker is still up; negative means that it is down.
func (b *fakeBroker) left() time.Duration {
	return 10*time.Second - time.Since(b.began)%(20*time.Second)
}

func (b *fakeBroker) dial(context.Context) (conn, error) {
	b.dials++
	if b.left() <= 0 {
		return nil, errors.New("refused")
	}
	c := fakeConn{b, make(chan error, 1)}
	time.AfterFunc(b.left(), func() { c.closed <- errors.New("lost") })
	return c, nil
}

func (c fakeConn) Closed() <-chan error { return c.closed }
func (c fakeConn) Close() error         { return nil }
func (c fakeConn) Publish(_ context.Context, message string) error {
	time.Sleep(30 * time.Millisecond)
	if c.left() <= 0 {
		return errors.New("lost")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has[message]++
	return nil
}

func TestWhatIsPublishedWhileTheConnectionIsDownWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		b, l := &fakeBroker{began: time.Now(), has: map[string]int{}}, &link{conns: make(chan conn)}
		ended := make(chan error)
		go func() { ended <- l.keep(ctx, b.dial) }()
		var publishers sync.WaitGroup
		for n := range 600 {
			publishers.Go(func() {
				time.Sleep(time.Duration(n) * 100 * time.Millisecond)
				ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
				defer cancel()
				if err := l.publish(ctx, fmt.Sprint(n)); err != nil {
					t.Error(err)
				}
			})
		}
		publishers.Wait()
		if len(b.has) != 600 || b.dials > 200 {
			t.Errorf("%d of 600 messages, %d dials", len(b.has), b.dials)
		}

		time.Sleep(time.Until(b.began.Add(95 * time.Second))) // it is down
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := l.publish(short, "late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a second: %v", err)
		}
		stop()
		<-ended
	})
}

// A connection that a proxy ends a second after its dial.
type cutConn struct {
	fakeConn
	publish func(context.Context) error
}

func (c cutConn) Publish(ctx context.Context, _ string) error { return c.publish(ctx) }

// publishAll publishes so many messages, one after the other, over connections that are cut.
func publishAll(t *testing.T, messages int, publish func(context.Context) error) (took time.Duration) {
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	l, ended, began := &link{conns: make(chan conn)}, make(chan error), time.Now()
	go func() {
		ended <- l.keep(ctx, func(context.Context) (conn, error) {
			c := cutConn{fakeConn{nil, make(chan error, 1)}, publish}
			time.AfterFunc(time.Second, func() { c.closed <- errors.New("cut") })
			return c, nil
		})
	}()
	for n := range messages {
		if err := l.publish(ctx, fmt.Sprint(n)); err != nil {
			t.Error(err)
		}
	}
	took = time.Since(began)
	stop()
	<-ended
	return took
}

func TestConnectionsThatEndOnScheduleDelayNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := publishAll(t, 500, func(context.Context) error { time.Sleep(20 * time.Millisecond); return nil })
		if took > 12*time.Second {
			t.Errorf("500 messages of 20 ms took %v", took)
		}
	})
}

func TestAMessageWhoseConfirmationNeverComesIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		took := publishAll(t, 1, func(ctx context.Context) error {
			if sent++; sent > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if sent != 2 || took > 15*time.Second {
			t.Errorf("%d times, %v", sent, took)
		}
	})
}

// Nobody listens, or the password is wrong.
func TestAPublisherLearnsWhyThereIsNoConnection(t *testing.T) {
	refused, password := errors.New("refused"), backoff.Permanent(errPassword)
	for err, within := range map[error]time.Duration{refused: 10 * time.Second, password: 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			l := &link{conns: make(chan conn)}
			go func() { _ = l.keep(ctx, func(context.Context) (conn, error) { return nil, err }) }()
			began := time.Now()
			if got := l.publish(ctx, "x"); !errors.Is(got, err) || time.Since(began) > within {
				t.Errorf("%v after %v", got, time.Since(began))
			}
		})
	}
}
