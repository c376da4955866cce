package plug

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// errUnbounded is the error of a call that nothing would end.
var errUnbounded = backoff.Permanent(errors.New("backoff: plug: the policy has no limit of attempts and the context no deadline: set MaxAttempts, or give the call a deadline"))

// rule is a policy in a form that another library's loop can follow.
type rule struct {
	policy backoff.Policy
	waits  backoff.Policy // policy for Decide: without what the other loop decides itself
	err    error          // why every call is refused; nil if none is
}

// newRule returns the rule of a policy.
func newRule(p backoff.Policy) rule {
	r := rule{policy: p, waits: p, err: p.Validate()}
	r.waits.MaxAttempts, r.waits.Idempotency = -1, nil
	r.waits.ByClass = maps.Clone(p.ByClass)
	for class, own := range r.waits.ByClass {
		own.MaxAttempts = 0
		r.waits.ByClass[class] = own
	}
	r.waits.Budget, r.waits.Observer = nil, nil
	return r
}

// attempts returns how many attempts a call may have, for loops that count
// without knowing the class: the smallest limit of those above 1, since transient
// knows which classes are not retried. A negative number means no limit.
func (r *rule) attempts() int {
	if r.err != nil {
		return 1
	}
	least := limits.Or(r.policy.MaxAttempts, 4)
	for class := range r.policy.ByClass {
		if n := r.attemptsAfter(class); n != 1 && (least == 1 || n > 0 && (least < 0 || n < least)) {
			least = n
		}
	}
	return least
}

// attemptsAfter returns how many attempts a call may have if the last one failed
// with a class.
func (r *rule) attemptsAfter(c backoff.Class) int {
	return limits.Or(r.policy.ByClass[c].MaxAttempts, limits.Or(r.policy.MaxAttempts, 4))
}

// refusal returns why a call of so many attempts must not begin; nil if it may.
func (r *rule) refusal(ctx context.Context, attempts int) error {
	if r.err != nil {
		return r.err
	}
	if _, bounded := ctx.Deadline(); !bounded && attempts < 0 {
		return errUnbounded
	}
	return nil
}

// class returns the class of an error by the policy. It is ClassUnknown only if
// nothing is known about the error. Such an error is not retried: the calls of the
// other library need not fail transiently.
func (r *rule) class(err error) backoff.Class {
	return backoff.Policy{Classify: r.policy.Classify, MaxAttempts: 1}.Decide(1, err).Class
}

// retryable reports whether the class of err, and what the server asked for,
// allow another attempt.
func (r *rule) retryable(err error) bool {
	return r.transient(err) && r.waits.Decide(1, err).Again
}

// transient reports whether the class of err allows another attempt.
func (r *rule) transient(err error) bool {
	if r.err != nil || err == nil {
		return false
	}
	class := r.class(err)
	return class != backoff.ClassUnknown && class.Retryable() && r.attemptsAfter(class) != 1
}

// gaveUp returns the error of a call that ends after so many attempts.
func (r *rule) gaveUp(why backoff.Reason, attempts int, last error) *backoff.Error {
	return &backoff.Error{Name: r.policy.Name, Attempts: attempts, Reason: why, Last: last}
}

// pastDeadline returns the error of a call whose next wait would pass the
// deadline of its context.
func (r *rule) pastDeadline(attempts int, last error) *backoff.Error {
	gave := r.gaveUp(backoff.ReasonDeadline, attempts, last)
	gave.Note = "the next wait would pass it"
	return gave
}

// repeatable reports whether the operation may be sent again after err.
func (r *rule) repeatable(ctx context.Context, err error) bool {
	idempotency := r.policy.Idempotency
	return idempotency == nil || idempotency.Repeatable(ctx, r.class(err))
}

// delay returns the wait before a retry, counted from 1. It accepts any number.
func (r *rule) delay(retry int) time.Duration { return r.waits.WaitBefore(max(retry, 1)) }

// fromOne turns a number that counts retries from 0 into one that counts from
// 1.
func fromOne(retry int) int { return min(max(retry, 0), math.MaxInt-1) + 1 }

// FromZero adapts a function that counts retries from 1, such as
// [backoff.Policy.WaitBefore], to a client that counts retries from 0. A negative
// number means the first retry. In these examples p is a [backoff.Policy]:
//
//	hcloud.WithRetryOpts(hcloud.RetryOpts{BackoffFunc: plug.FromZero(p.WaitBefore), MaxRetries: 3})
//	redis.Options{DialerRetryBackoff: plug.FromZero(p.WaitBefore)}
//	// sarama, metadata and producer
//	config.Metadata.Retry.BackoffFunc = func(n, _ int) time.Duration {
//		return plug.FromZero(p.WaitBefore)(n)
//	}
//
// A client that counts retries from 1 takes the method itself:
//
//	kgo.RetryBackoffFn(p.WaitBefore)                      // franz-go
//	nats.CustomReconnectDelay(p.WaitBefore)               // NATS
//	elasticsearch.Config{RetryBackoff: p.WaitBefore}      // Elasticsearch, OpenSearch
//	config.Consumer.Retry.BackoffFunc = p.WaitBefore      // sarama, consumer
//	autopaho.ClientConfig{ReconnectBackoff: p.WaitBefore} // MQTT; asks for 0 first, which is no wait
//
// A few clients want a type with one method:
//
//	// gocql.ReconnectionPolicy
//	func (s schedule) GetInterval(n int) time.Duration { return plug.FromZero(s.Delay)(n) }
//	func (s schedule) GetMaxRetries() int              { return s.MaxAttempts - 1 }
//
//	// heimdall.Retriable
//	func (s schedule) NextInterval(n int) time.Duration { return plug.FromZero(s.Delay)(n) }
//
//	// nsq.BackoffStrategy
//	func (s schedule) Calculate(n int) time.Duration { return s.Delay(n) }
//
//	// sethvargo/go-retry: true means stop
//	func (s schedule) Next() (time.Duration, bool) { wait, ok := s.run.Tried(err); return wait, !ok }
//
// golang.org/x/crypto/acme stops at 0 or less. It passes the response, from
// which backoffhttp reads Retry-After:
//
//	client.RetryBackoff = func(n int, _ *http.Request, resp *http.Response) time.Duration {
//		return p.Decide(n, backoffhttp.Check(resp)).Wait
//	}
//
// The numbers that clients pass may be 0, negative or huge: delays saturate
// and are never negative. Clients ask for more delays than they wait for, and
// concurrently. So [backoff.Policy.WaitBefore] depends on the number alone, and a
// jitter that uses the previous wait ([backoff.DecorrelatedJitter]) gets none.
// FromZero(nil) is nil.
func FromZero(delay func(retry int) time.Duration) func(retry int) time.Duration {
	if delay == nil {
		return nil
	}
	return func(retry int) time.Duration { return delay(fromOne(retry)) }
}

// hinted marks err with how long the server asks to wait, if it does.
func hinted(err error, resp *http.Response) error {
	if d, ok := hintOf(resp); ok {
		return backoff.RetryAfter(err, d)
	}
	return err
}

// hintOf returns how long the server asks to wait, and whether it does.
func hintOf(resp *http.Response) (time.Duration, bool) {
	if resp == nil {
		return 0, false
	}
	return retryafter.From(resp.Header, time.Now())
}
