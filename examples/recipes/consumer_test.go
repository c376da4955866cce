package recipes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/guard"
)

// saveOrder sends a message to the shop, with its id.
func saveOrder(ctx context.Context, client *http.Client, url, m string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(m))
	if err != nil {
		return backoff.Permanent(err)
	}
	req.Header.Set("Idempotency-Key", m)
	resp, err := client.Do(req) // a POST by a plain http.Client, with the message's id as its Idempotency-Key
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	err = backoffhttp.Check(resp)
	if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == 422 {
		return backoff.Permanent(err) // the shop will never take this message
	}
	return err
}

// One message is stored, one is rejected, and one fails.
func Example_consumer() {
	shop := faulty.Start(func(_ *faulty.Server, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[string]int{"good": 201, "bad": 422, "early": 503}[r.Header.Get("Idempotency-Key")])
	})
	defer shop.Close()
	ctx, deliveries := context.Background(), slices.Values([]string{"good", "bad", "early"})
	save := func(ctx context.Context, m string) error { return saveOrder(ctx, http.DefaultClient, shop.URL, m) }
	ack := func(m string) { fmt.Println("ack", m) }
	giveBack := func(m string, d time.Duration) { fmt.Println("give back", m, "for", d) }
	bury := func(m string, err error) { fmt.Println("bury", m, err) }

	orders := &consumer{
		service: &guard.Service{ // one for the service that handle calls
			Name: "shop",
			// FailFast: true, // while the circuit is open, a delivery holds no worker
		},
		handle:   save,     // without retries and guards
		ack:      ack,      // after it was handled
		giveBack: giveBack, // with a delay
		bury:     bury,     // stores a dead letter, and then acks
	}
	for message := range deliveries { // several goroutines may call take
		orders.take(ctx, message)
	}
	// Output:
	// ack good
	// bury bad status 422 Unprocessable Entity
	// give back early for 10s
}

// queue is a broker in virtual time.
type queue struct {
	consumer
	messages      chan string
	acked, buried []string
	tries         map[string]int
	hasty         bool // the broker sends a message again after 2 s, whatever the delay
}

func newQueue(handle func(context.Context, string) error) *queue {
	q := &queue{messages: make(chan string, 100_000), tries: map[string]int{}}
	q.consumer = consumer{
		service: &guard.Service{},
		handle: func(ctx context.Context, m string) error {
			q.tries[m]++
			time.Sleep(5 * time.Millisecond)
			return handle(ctx, m)
		},
		ack:  func(m string) { q.acked = append(q.acked, m) },
		bury: func(m string, why error) { q.buried = append(q.buried, fmt.Sprint(m, ": ", why)) },
		giveBack: func(m string, after time.Duration) {
			if q.hasty {
				after = 2 * time.Second
			}
			time.AfterFunc(after, func() { q.messages <- m })
		},
	}
	return q
}

// consume handles messages until ctx ends.
func (q *queue) consume(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case m := <-q.messages:
			q.take(ctx, m)
		}
	}
}

// feed brings a message after each interval, which is bad if name says so, and handles them
// until the end of the time.
func (q *queue) feed(t *testing.T, messages int, interval, all time.Duration, name func(int) string) {
	ctx, stop := context.WithTimeout(t.Context(), all)
	defer stop()
	go func() {
		for n := range messages {
			q.messages <- fmt.Sprint(name(n), n)
			time.Sleep(interval)
		}
	}()
	q.consume(ctx)
}

func isBad(m string) bool { return strings.HasPrefix(m, "bad") }

// oneIn names one of n messages bad.
func oneIn(n int) func(int) string {
	return func(i int) string {
		if i%n == 1 {
			return "bad"
		}
		return "good"
	}
}

// requireAllGood fails unless each good message was handled.
func (q *queue) requireAllGood(t *testing.T, good int, world ...any) {
	t.Helper()
	if n := slices.IndexFunc(q.buried, func(m string) bool { return !isBad(m) }); n >= 0 || len(q.acked) != good {
		t.Errorf("%v: %d of %d good messages are done; buried: %q", world, len(q.acked), good, q.buried[max(n, 0):])
	}
}

// One message is taken, one after two failures, one is invalid, two may have been paid, and the
// program is told to stop while it handles the last.
func TestAConsumerKnowsWhatBecomesOfEachMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		pay := backoff.Policy{Name: "pay", Idempotency: backoff.NonIdempotent}
		var q *queue
		q = newQueue(func(ctx context.Context, m string) error {
			switch {
			case m == "good", m == "flaky" && q.tries[m] == 3:
				return nil
			case m == "invalid":
				return backoff.Permanent(errors.New("invalid"))
			case m == "paid":
				return pay.Do(ctx, func(context.Context) error { return errors.New("no answer") })
			case m == "hung":
				return pay.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			case m == "last":
				stop()
			}
			return errors.New("down")
		})
		for _, m := range []string{"good", "flaky", "invalid", "paid", "hung"} {
			q.messages <- m
		}
		time.AfterFunc(time.Minute, func() { q.messages <- "last"; q.messages <- "unread" })

		q.consume(ctx)

		if want := []string{"good", "flaky"}; !slices.Equal(q.acked, want) || q.tries["flaky"] != 3 {
			t.Errorf("taken: %q", q.acked)
		}
		if want := []string{
			"invalid: invalid",
			"paid: backoff: pay: gave up after 1 attempt: not idempotent (Idempotency): no answer",
			"hung: backoff: pay: gave up after 1 attempt: context deadline exceeded",
		}; !slices.Equal(q.buried, want) {
			t.Errorf("buried: %q", q.buried)
		}
		if q.tries["last"] != 1 || len(q.messages) != 1 || len(q.failed) > 0 {
			t.Errorf("%d tries of the last one, %d messages left, remembered: %v", q.tries["last"], len(q.messages), q.failed)
		}
	})
}

// By default each call is repeated. Under NonIdempotent a failure that may have had an effect is
// the end of its message.
func TestAConsumerRepeatsACallUnlessItIsNotIdempotent(t *testing.T) {
	defer func(p backoff.Policy) { consuming = p }(consuming)
	for _, rule := range []struct {
		idempotency   backoff.Idempotency
		repeated, end []string
	}{
		{nil, []string{"hung", "refused", "unavailable"}, nil},
		{backoff.NonIdempotent, []string{"refused"}, []string{"hung", "unavailable"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			consuming.Idempotency = rule.idempotency
			q := newQueue(func(ctx context.Context, m string) error {
				switch m {
				case "refused":
					return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				case "hung":
					<-ctx.Done()
					return ctx.Err()
				}
				return &backoffhttp.StatusError{Code: 503}
			})
			var repeated, buried []string
			q.giveBack = func(m string, _ time.Duration) { repeated = append(repeated, m) }
			q.bury = func(m string, _ error) { buried = append(buried, m) }
			for _, m := range []string{"hung", "refused", "unavailable"} {
				q.take(t.Context(), m)
			}
			if !slices.Equal(repeated, rule.repeated) || !slices.Equal(buried, rule.end) {
				t.Errorf("repeated %q, buried %q", repeated, buried)
			}
		})
	}
}

// Nothing shows that a message is bad if there are no others.
func TestABadMessageAloneIsBuriedAtItsTwelfthDelivery(t *testing.T) {
	for bad, latest := range map[int]time.Duration{1: 61 * time.Minute, 2: 65 * time.Minute, 10: 90 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(func(context.Context, string) error { return errors.New("cannot be handled") })
			began, last := time.Now(), time.Duration(0)
			bury := q.bury
			q.bury = func(m string, why error) { bury(m, why); last = time.Since(began) }
			q.feed(t, bad, time.Second, 24*time.Hour, oneIn(1))
			if last < time.Hour || last > latest || len(q.buried) != bad {
				t.Errorf("%d of %d are buried, the last one after %v", len(q.buried), bad, last)
			}
			for m, n := range q.tries {
				if n != 12 {
					t.Errorf("%d deliveries of %s", n, m)
				}
			}
		})
	}
}

// Bad messages do not protect each other, however many there are.
func TestABadMessageIsBuriedAtItsEighthDelivery(t *testing.T) {
	for _, share := range []int{100, 50, 20, 5, 2} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(func(_ context.Context, m string) error {
				if isBad(m) {
					return errors.New("cannot be handled")
				}
				return nil
			})
			q.feed(t, 8000, 500*time.Millisecond, 4000*time.Second, oneIn(share))
			q.requireAllGood(t, 8000-8000/share, "one bad in", share)
			came := 2 * (4000 - 1300) / share // more than 1,300 s ago
			if len(q.buried) < came {
				t.Errorf("one bad in %d: %d of %d are buried", share, len(q.buried), came)
			}
			for m, n := range q.tries {
				if n > 8 {
					t.Errorf("one bad in %d: %d deliveries of %s", share, n, m)
				}
			}
		})
	}
}

// Another process may have the message, so it is not remembered forever.
func TestAMessageThatDoesNotComeBackIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func(context.Context, string) error { return errors.New("cannot be handled") })
		q.giveBack = func(string, time.Duration) {}
		q.take(t.Context(), "elsewhere")
		time.Sleep(25 * time.Hour)
		q.take(t.Context(), "other")
		if _, known := q.failed["elsewhere"]; known || len(q.failed) != 1 {
			t.Errorf("remembered: %v", q.failed)
		}
	})
}

// A handler that waits for its context lets the others go on.
func TestAHandlerThatHangsHoldsUpNoOtherMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func(ctx context.Context, m string) error {
			if isBad(m) {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		q.feed(t, 20, time.Second, 5*time.Minute, func(n int) string {
			if n == 0 {
				return "bad"
			}
			return "good"
		})
		q.requireAllGood(t, 19)
	})
}

// The messages of one tenant of ten fail for a while, and all others are handled.
func TestATenantThatIsDownLosesNoMessage(t *testing.T) {
	for _, lasts := range []time.Duration{3 * time.Minute, 20 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			down := time.Now().Add(10 * time.Second)
			q := newQueue(func(_ context.Context, m string) error {
				if in := time.Since(down); strings.HasPrefix(m, "tenant") && in > 0 && in < lasts {
					return &backoffhttp.StatusError{Code: 503}
				}
				return nil
			})
			q.feed(t, 3000, 500*time.Millisecond, 2*time.Hour, func(n int) string {
				if n%10 == 3 {
					return "tenant"
				}
				return "good"
			})
			q.requireAllGood(t, 3000, lasts)
		})
	}
}

// Most deliveries fail for a while. The broker keeps to the delays or not. Each bad message is
// still buried in the end.
func TestABrownoutBuriesNoGoodMessage(t *testing.T) {
	for _, share := range []float64{0.8, 0.9, 0.95} {
		for _, lasts := range []time.Duration{time.Minute, 10 * time.Minute} {
			for _, hasty := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					dice := rand.New(rand.NewPCG(1, 2))
					from := time.Now().Add(10 * time.Second)
					q := newQueue(func(_ context.Context, m string) error {
						if in := time.Since(from); isBad(m) || in > 0 && in < lasts && dice.Float64() < share {
							return &backoffhttp.StatusError{Code: 503}
						}
						return nil
					})
					q.hasty = hasty
					q.feed(t, 2000, 500*time.Millisecond, 5*time.Hour, oneIn(100))
					q.requireAllGood(t, 1980, share, lasts, hasty)
					if len(q.buried) != 20 {
						t.Errorf("%v fail for %v, hasty: %v: buried %q", share, lasts, hasty, q.buried)
					}
				})
			}
		}
	}
}

// The service behind the queue is down for a while, in each way that its failure may show. A
// busy queue loses no good message, even if that lasts for hours.
func TestAnOutageBuriesNoGoodMessage(t *testing.T) {
	var refused error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	as := func(err error) func(context.Context, func(context.Context) error) error {
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
		"a bare call":            as(refused),
		"a policy that gives up": calling.Do,
		"a deadline": func(ctx context.Context, call func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			return backoff.Policy{MaxAttempts: -1}.Do(ctx, call)
		},
		"a hanging service": func(ctx context.Context, call func(context.Context) error) error {
			if call(ctx) == nil {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		},
		"a breaker": func(ctx context.Context, call func(context.Context) error) error {
			return breaker.Do(ctx, calling.Wrap(call))
		},
		"a service": func(ctx context.Context, call func(context.Context) error) error {
			return service.Do(ctx, calling, call)
		},
		"a wait that is too long": func(ctx context.Context, call func(context.Context) error) error {
			return backoff.RetryAfter(call(ctx), time.Hour)
		},
		"an expired certificate":   as(&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}),
		"an expired token":         as(&backoffhttp.StatusError{Code: 401}),
		"a name that is not there": as(&net.DNSError{IsNotFound: true}),
		"throttling":               as(&backoffhttp.StatusError{Code: 429}),
		"an overload":              as(backoff.OfClass(refused, backoff.ClassOverloaded)),
	} {
		for _, outage := range []time.Duration{4 * time.Second, time.Minute, time.Hour, 5 * time.Hour} {
			if name == "a service" && outage > time.Hour {
				continue // it hides the outage from the Service of the consumer
			}
			synctest.Test(t, func(t *testing.T) {
				breaker, service = &backoff.Breaker{}, &guard.Service{}
				down := time.Now().Add(20 * time.Second)
				up := down.Add(outage)
				q := newQueue(func(ctx context.Context, m string) error {
					return through(ctx, func(context.Context) error {
						if now := time.Now(); isBad(m) || now.After(down) && now.Before(up) {
							return refused
						}
						return nil
					})
				})
				interval := max(outage/1000, 500*time.Millisecond)
				q.feed(t, 1400, interval, 1400*interval+5*time.Hour, oneIn(100))
				q.requireAllGood(t, 1386, name, outage)
			})
		}
	}
}
