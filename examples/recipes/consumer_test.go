package recipes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

var consuming = backoff.Policy{
	Name:           "consume",
	MaxAttempts:    5,
	AttemptTimeout: 30 * time.Second,    // a handler that hangs holds up all messages
	Jitter:         backoff.EqualJitter, // a wait is half of its delay at least, so the waits grow
}

// again is the delay after each delivery of a message that failed.
var again = backoff.Exponential{Initial: 10 * time.Second, Max: 10 * time.Minute}

// A consumer handles messages, and remembers which fail while others are done.
type consumer struct {
	handle   func(context.Context, string) error // returns backoff.Permanent(err) for a message that it will never take
	ack      func(string)
	bury     func(string, error)         // into the dead letters, and ack it if they have it
	giveBack func(string, time.Duration) // the broker sends it again after that time, not sooner

	done   int // messages in a row that were handled, or never will be
	failed map[string]failures
}

type failures struct {
	first      time.Time
	all, alone int // deliveries, and those right after ten messages in a row that were handled
}

// consume handles messages until ctx ends.
func (c *consumer) consume(ctx context.Context, messages <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return // the broker is gone
			}
			err := consuming.Do(ctx, func(ctx context.Context) error { return c.handle(ctx, m) })
			if ctx.Err() != nil && err != nil {
				return // without ack: the broker sends it again
			}
			c.settle(m, err)
		}
	}
}

// settle decides what becomes of a message.
func (c *consumer) settle(m string, err error) {
	f := c.failed[m]
	if f.all++; f.all == 1 {
		f.first = time.Now()
	}
	if c.done >= 10 {
		f.alone++
	}
	if c.done++; err != nil && transient(err) {
		c.done = 0
	}
	switch {
	case err == nil:
		c.ack(m)
	case transient(err) && f.alone < 4 && time.Since(f.first) < maxOutage:
		c.failed[m] = f
		c.giveBack(m, again.Delay(f.all))
		return
	default:
		c.bury(m, err)
	}
	delete(c.failed, m)
}

// maxOutage is the longest outage that buries no message. In a queue with no other
// messages, one that always fails is tried for so long.
const maxOutage = time.Hour

// marked retries each error that the handler has not marked by backoff.Permanent: a 401
// or an expired certificate is no fault of the message.
var marked = backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return true })}

// transient reports whether the message may succeed later: its handler has not
// marked the error, and the call may be retried.
func transient(err error) bool {
	var gaveUp *backoff.Error
	if errors.As(err, &gaveUp) {
		return gaveUp.Reason != backoff.ReasonNotIdempotent // it may have happened: a person must check
	}
	return marked.Retryable(err) || errors.Is(err, backoff.ErrOpen)
}

// queue is a broker in virtual time.
type queue struct {
	consumer
	messages      chan string
	acked, buried []string
}

func newQueue(handle func(context.Context, string) error) *queue {
	q := &queue{messages: make(chan string, 10_000)}
	q.consumer = consumer{
		failed:   map[string]failures{},
		handle:   handle,
		ack:      func(m string) { q.acked = append(q.acked, m) },
		bury:     func(m string, why error) { q.buried = append(q.buried, fmt.Sprint(m, ": ", why)) },
		giveBack: func(m string, after time.Duration) { time.AfterFunc(after, func() { q.messages <- m }) },
	}
	return q
}

// One message is taken, one after two failures, one is invalid, one may have
// been paid, one always fails, and the program is told to stop while it waits to
// handle the last.
func TestAConsumerKnowsWhatBecomesOfEachMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		attempts := map[string]int{}
		q := newQueue(func(ctx context.Context, m string) error {
			switch attempts[m]++; {
			case m == "good", m == "flaky" && attempts[m] == 3:
				return nil
			case m == "invalid":
				return backoff.Permanent(errors.New("invalid"))
			case m == "paid":
				return backoff.Policy{Name: "pay", Idempotency: backoff.NonIdempotent}.Do(ctx, func(context.Context) error { return errors.New("no answer") })
			case m == "last":
				time.AfterFunc(time.Millisecond, stop)
			}
			return errors.New("down")
		})
		for _, m := range []string{"good", "flaky", "invalid", "paid", "bad", "last", "unread"} {
			q.messages <- m
		}

		q.consume(ctx, q.messages)

		if want := []string{"good", "flaky"}; !slices.Equal(q.acked, want) || attempts["flaky"] != 3 {
			t.Errorf("taken: %q", q.acked)
		}
		if want := []string{"invalid: invalid", "paid: backoff: pay: gave up after 1 attempt: not idempotent (Idempotency): no answer"}; !slices.Equal(q.buried, want) {
			t.Errorf("buried: %q", q.buried)
		}
		if attempts["bad"] != 5 || attempts["last"] != 1 || len(q.messages) != 1 {
			t.Errorf("%d attempts of the bad one, %d of the last one", attempts["bad"], attempts["last"])
		}
		q.consume(ctx, nil) // returns also while no message comes
	})
}

// Nothing shows that a message is bad if there are no others.
func TestABadMessageCosts60AttemptsInAnIdleQueue(t *testing.T) {
	for _, others := range []string{"", "invalid"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
			defer stop()
			attempts := 0
			q := newQueue(func(_ context.Context, m string) error {
				if m == "invalid" {
					return backoff.Permanent(errors.New("invalid"))
				}
				attempts++
				return errors.New("cannot be handled")
			})
			q.messages <- "bad"
			for range 5 {
				if others != "" {
					time.AfterFunc(time.Minute, func() { q.messages <- others })
				}
			}
			q.consume(ctx, q.messages)
			if bad := q.buried[len(q.buried)-1]; bad[:3] != "bad" || attempts != 60 {
				t.Errorf("%d attempts, buried: %q", attempts, q.buried)
			}
		})
	}
}

func TestABadMessageCosts20AttemptsInABusyQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, took := 0, time.Duration(0)
		q := newQueue(func(_ context.Context, m string) error {
			if m != "bad" {
				return nil
			}
			attempts++
			return errors.New("cannot be handled")
		})
		bury, began := q.bury, time.Now()
		q.bury = func(m string, why error) { bury(m, why); took = time.Since(began) }
		q.feed(t, 400)
		if attempts != 20 || len(q.acked) != 400 || len(q.buried) != 1 || took > 90*time.Second {
			t.Errorf("%d attempts in %v, %d messages done, buried: %q", attempts, took, len(q.acked), q.buried)
		}
	})
}

// feed brings so many messages, two a second, and a bad one, and handles them for two hours.
func (q *queue) feed(t *testing.T, messages int) {
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
	defer stop()
	go func() {
		for n := range messages {
			q.messages <- fmt.Sprint(n)
			time.Sleep(500 * time.Millisecond)
			if n == 10 {
				q.messages <- "bad"
			}
		}
	}()
	q.consume(ctx, q.messages)
}

// A handler that waits for its context lets the others go on.
func TestAHandlerThatHangsHoldsUpNoOtherMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		q := newQueue(func(ctx context.Context, m string) error {
			if m == "hangs" {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		q.messages <- "hangs"
		q.messages <- "good"
		q.consume(ctx, q.messages)
		if !slices.Equal(q.acked, []string{"good"}) || len(q.buried) > 0 {
			t.Errorf("done: %q, buried: %q", q.acked, q.buried)
		}
	})
}

// Most attempts fail for a minute, or for ten, or all of them for an hour. The
// broker keeps to the delays, or sends each message again after two seconds.
func TestABrownoutBuriesNoGoodMessage(t *testing.T) {
	for _, row := range []struct {
		share float64
		lasts time.Duration
	}{{0.8, time.Minute}, {0.9, time.Minute}, {0.95, time.Minute}, {0.9, 10 * time.Minute}, {1, time.Hour}} {
		for _, hasty := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				dice := rand.New(rand.NewPCG(1, 2))
				from := time.Now().Add(10 * time.Second)
				q := newQueue(func(_ context.Context, m string) error {
					if in := time.Since(from); m == "bad" || in > 0 && in < row.lasts && dice.Float64() < row.share {
						return &backoffhttp.StatusError{Code: 503}
					}
					return nil
				})
				if giveBack := q.giveBack; hasty {
					q.giveBack = func(m string, _ time.Duration) { giveBack(m, 2*time.Second) }
				}
				q.feed(t, 400)
				if len(q.acked) != 400 || len(q.buried) != 1 || q.buried[0][:4] != "bad:" {
					t.Errorf("%v fail for %v, hasty: %v: %d of 400 messages done, and buried: %q", row.share, row.lasts, hasty, len(q.acked), q.buried)
				}
			})
		}
	}
}

// Two messages a second arrive, one of which nobody can handle, and the service
// behind them is down for a while. However its failure shows, all of the good
// messages are done in the end, and only the bad one is buried.
func TestAnOutageBuriesNoGoodMessage(t *testing.T) {
	var refused error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	failing := func(err error) func(context.Context, func(context.Context) error) error {
		return func(ctx context.Context, call func(context.Context) error) error {
			if call(ctx) == refused {
				return err
			}
			return call(ctx)
		}
	}
	calling := backoff.Policy{Name: "call", MaxAttempts: 2}
	breaker, service := &backoff.Breaker{}, &guard.Service{}
	for name, through := range map[string]func(context.Context, func(context.Context) error) error{
		"a bare call":            func(ctx context.Context, call func(context.Context) error) error { return call(ctx) },
		"a policy that gives up": calling.Do,
		"a deadline": func(ctx context.Context, call func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			return backoff.Policy{MaxAttempts: -1}.Do(ctx, call)
		},
		"a budget": backoff.Policy{Budget: &backoff.RetryBudget{}}.Do,
		"a breaker": func(ctx context.Context, call func(context.Context) error) error {
			return breaker.Do(ctx, calling.Wrap(call))
		},
		"a service": func(ctx context.Context, call func(context.Context) error) error {
			return service.Do(ctx, calling, call)
		},
		"a service that fails fast": func(ctx context.Context, call func(context.Context) error) error {
			return service.Do(guard.WithFailFast(ctx), calling, call)
		},
		"a wait that is too long": func(ctx context.Context, call func(context.Context) error) error {
			return backoff.RetryAfter(call(ctx), time.Hour)
		},
		"an expired certificate":   failing(&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}),
		"an expired token":         failing(&backoffhttp.StatusError{Code: 401}),
		"a name that is not there": failing(&net.DNSError{IsNotFound: true}),
		"an overload": func(ctx context.Context, call func(context.Context) error) error {
			return backoff.OfClass(call(ctx), backoff.ClassOverloaded)
		},
	} {
		for _, outage := range []time.Duration{4 * time.Second, 15 * time.Second, 5 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				breaker, service = &backoff.Breaker{}, &guard.Service{}
				down := time.Now().Add(5 * time.Second)
				up := down.Add(outage)
				q := newQueue(func(ctx context.Context, m string) error {
					return through(ctx, func(context.Context) error {
						switch now := time.Now(); {
						case m == "bad":
							return errors.New("cannot be handled")
						case now.After(down) && now.Before(up):
							return refused
						}
						return nil
					})
				})
				q.feed(t, 2000)
				if len(q.acked) != 2000 || len(q.buried) != 1 || q.buried[0][:4] != "bad:" {
					t.Errorf("%s, down for %v: %d of 2000 messages done, and buried: %q", name, outage, len(q.acked), q.buried)
				}
			})
		}
	}
}
