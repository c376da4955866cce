package recipes

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// The broker makes the attempts. A handler that hangs holds up all messages.
var consuming = backoff.Policy{Name: "consume", MaxAttempts: 1, AttemptTimeout: 30 * time.Second}

// again is the delay after each delivery: the eighth is after 20 minutes, the twelfth in an hour.
var again = backoff.Exponential{Initial: 10 * time.Second, Max: 10 * time.Minute}

// whileOpen is the delay of a delivery that the open circuit refused.
var whileOpen = time.Minute

// A consumer handles messages, and remembers which fail while others are handled.
type consumer struct {
	service  *guard.Service                      // that handle calls
	handle   func(context.Context, string) error // returns backoff.Permanent(err) for a message that it will never take
	ack      func(string)
	giveBack func(string, time.Duration) // the broker sends it again after that time
	bury     func(string, error)         // stores it as a dead letter, then acks it

	mu      sync.Mutex
	handled int                // messages so far
	failed  map[string]failure // by message
}

type failure struct {
	tries   int       // deliveries that count
	blamed  int       // tries that failed though another message was handled since the one before
	handled int       // messages at the last one
	due     time.Time // of the next one
}

// take handles one delivery of a message. Several goroutines may call it.
func (c *consumer) take(ctx context.Context, m string) {
	tried := false
	err := c.service.Do(ctx, consuming, func(ctx context.Context) error {
		tried = true
		err := c.handle(ctx, m)
		if transient(err) && !consuming.Retryable(err) {
			err = backoff.OfClass(err, backoff.ClassRetryable) // a 401 counts as an outage of the service
		}
		return err
	})
	if ctx.Err() != nil && err != nil {
		return // the program stops: without ack, the broker sends the message again
	}
	switch delay := c.judge(m, tried, err); {
	case err == nil:
		c.ack(m)
	case delay > 0:
		c.giveBack(m, delay)
	default:
		c.bury(m, err)
	}
}

// judge returns the delay before the next delivery of a message, or 0 if there is none.
func (c *consumer) judge(m string, tried bool, err error) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, now := c.failed[m], time.Now()
	switch {
	case err == nil:
		c.handled++
	case !tried:
		return whileOpen // which is no fault of the message
	case transient(err):
		if now.Before(f.due) {
			return f.due.Sub(now) // the broker was too quick, so this delivery does not count
		}
		if f.tries++; c.handled > f.handled {
			f.blamed++
		}
		// Other processes have these messages by now.
		maps.DeleteFunc(c.failed, func(_ string, f failure) bool { return now.Sub(f.due) > 24*time.Hour })
		if f.blamed < 8 && f.tries < 12 {
			delay := again.Delay(f.tries)
			if c.failed == nil {
				c.failed = map[string]failure{}
			}
			c.failed[m] = failure{f.tries, f.blamed, c.handled, now.Add(delay)}
			return delay
		}
	}
	delete(c.failed, m)
	return 0
}

// unmarked retries each error that the handler has not marked by backoff.Permanent: a 401
// or an expired certificate is no fault of the message.
var unmarked = backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return true })}

// transient reports whether the message may succeed later.
func transient(err error) bool {
	if gaveUp, ok := errors.AsType[*backoff.Error](err); ok {
		return gaveUp.Repeatable() // else it may have happened: a person must check
	}
	return unmarked.Retryable(err) || errors.Is(err, backoff.ErrOpen)
}
