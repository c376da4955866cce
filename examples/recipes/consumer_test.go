package recipes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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
	Name:        "consume",
	MaxAttempts: 5,
	Jitter:      backoff.EqualJitter, // a wait is half of its delay at least, so the waits grow
}

// A consumer handles messages, and remembers which fail while others are done.
type consumer struct {
	handle   func(context.Context, string) error // returns backoff.Permanent(err) for a message that it will never take
	ack      func(string)
	bury     func(string, error)         // into the dead letters, and ack it if they have it
	giveBack func(string, time.Duration) // the broker sends it again after that time

	works bool                 // the message before this one was done, or is final
	alone map[string]int       // how often a message failed after such a one
	first map[string]time.Time // when it failed first
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
	if err != nil && c.works {
		c.alone[m]++
	}
	if _, failed := c.first[m]; !failed {
		c.first[m] = time.Now()
	}
	c.works = err == nil || !transient(err)
	switch {
	case err == nil:
		c.ack(m)
	case transient(err) && c.alone[m] < 4 && time.Since(c.first[m]) < maxOutage:
		c.giveBack(m, 10*time.Second)
		return
	default:
		c.bury(m, err)
	}
	delete(c.alone, m)
	delete(c.first, m)
}

// maxOutage is the longest outage that buries no message. In a queue with no other
// messages it is also for how long one is tried that always fails.
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
		alone:    map[string]int{},
		first:    map[string]time.Time{},
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
func TestABadMessageIsBuriedInAQuietQueue(t *testing.T) {
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
			if bad := q.buried[len(q.buried)-1]; bad[:3] != "bad" || attempts > 2000 {
				t.Errorf("%d attempts, buried: %q", attempts, q.buried)
			}
		})
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
				ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
				defer stop()
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
				go func() {
					for n := range 2000 {
						q.messages <- fmt.Sprint(n)
						time.Sleep(500 * time.Millisecond)
						if n == 10 {
							q.messages <- "bad"
						}
					}
				}()
				q.consume(ctx, q.messages)
				if len(q.acked) != 2000 || len(q.buried) != 1 || q.buried[0][:4] != "bad:" {
					t.Errorf("%s, down for %v: %d of 2000 messages done, and buried: %q", name, outage, len(q.acked), q.buried)
				}
			})
		}
	}
}
