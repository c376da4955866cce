package backoffgrpc

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/hedge"
)

// Unary returns an interceptor that makes unary calls as the config says.
//
// The wait is exactly that of a pushback of the server
// (grpc-retry-pushback-ms). A negative pushback ends the call. A RetryInfo in
// the status is the least wait; of more than one the longest counts, and a
// negative one is ignored. If the next attempt fails with a RetryInfo too, the
// wait after it is twice as long, and so on, up to MaxRetryAfter or 5 minutes,
// unless ByClass has a Jitter for such failures. Attempts after the first tell the server their
// number by grpc-previous-rpc-attempts. Options of the call, such as
// WaitForReady, apply to every attempt. Unlike in grpc-go's own retries, a
// header that the server sent before it failed does not keep a call from being
// sent again.
//
// Under a policy or a hedge that is Keyed, each attempt sends the key of its context in
// the metadata "idempotency-key", unless the outgoing metadata of the call has one. The
// server must know the key, and make one order of two attempts: gRPC itself does not.
// Under any other Idempotency no key is sent.
//
// The error of a call has the status of its last attempt as the server sent it,
// including the details. Of one that is longer than 64 KiB, it has half of that
// of the message, and the details that fit. Once the call's context has ended, the status is
// DEADLINE_EXCEEDED or CANCELLED. errors.As finds the [*backoff.Error] of a
// policy that gave up. To policies around the call the error is permanent.
//
// Each attempt reads into an empty message of its own. The caller's reply becomes
// that of the attempt that succeeded, as a whole. What was in it before is gone,
// with any codec, and it is left as it is if the call fails.
//
// The attempts of a hedged call run at the same time, and the header, trailer
// and peer are those of the winner. The request must not be changed after the
// call returns: an attempt that lost may still read it.
//
// Package guard/endpoint gives observers the method and the server that are called,
// such as "example.com/package.Service/Method", and how long its attempts take.
func (c *Config) Unary() grpc.UnaryClientInterceptor { return c.client().unary }

// unary is the interceptor.
func (c *client) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if c.invalid != nil {
		return callError(ctx, backoff.Permanent(c.invalid))
	}
	m := c.lookup(method)
	if m.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.Timeout)
		defer cancel()
	}
	carried := m.carry()
	u := &unary{method: method, req: req, cc: cc, invoke: invoke, opts: m.options(opts)}
	switch {
	case carried != nil:
		ctx, u.to = c.observed(ctx, carried.policy.Observer, cc, method)
		u.said = carried.policy.Idempotency
		return carried.error(ctx, u.retry(ctx, carried, c.services, reply))
	case m.Hedge != nil:
		ctx, u.to = c.observed(ctx, m.Hedge.Observer, cc, method)
		u.said = m.Hedge.Idempotency
		return callError(ctx, u.hedge(ctx, m.Hedge, reply))
	}
	return invoke(ctx, method, req, reply, cc, u.opts...)
}

// unary is one call.
type unary struct {
	method string
	req    any
	cc     *grpc.ClientConn
	invoke grpc.UnaryInvoker
	opts   []grpc.CallOption
	to     *endpoint.Endpoint  // nil if no observer asks
	said   backoff.Idempotency // of the policy or the hedge
}

// retry makes the call under a policy, and under the guards of its server if there
// are services.
func (u *unary) retry(ctx context.Context, under *carried, services *guard.Services, reply any) error {
	attempts, own := 0, under.policy
	waits := grow(&own)
	attempt := func(ctx context.Context) error {
		attempts++
		message, deliver := fresh(reply)
		err := u.attempt(ctx, attempts, message, u.opts, new(sight))
		if err == nil {
			deliver()
			return nil
		}
		return exhausted(waits.hear(err), under.policy.Classify)
	}
	if services == nil {
		return own.Do(ctx, attempt)
	}
	s := services.For(u.cc.Target())
	if s == nil || under.final == nil {
		return s.Do(ctx, own, attempt)
	}
	budget, _ := s.Parts()
	own.Budget = cmp.Or(own.Budget, budget)
	return s.Around(ctx, &own, &guard.Turn{FailFast: true}, func(ctx context.Context, _ *backoff.Policy) error { return own.Do(ctx, attempt) })
}

// attempt makes one attempt, which is measured if somebody observes the call.
// Attempts are numbered from 1.
func (u *unary) attempt(ctx context.Context, number int, reply any, opts []grpc.CallOption, seen *sight) error {
	if u.to == nil {
		return u.send(ctx, number, reply, opts, seen)
	}
	return u.to.Do(ctx, func(ctx context.Context) error { return u.send(ctx, number, reply, opts, seen) })
}

// send sends the request of an attempt, and receives the reply.
func (u *unary) send(ctx context.Context, number int, reply any, opts []grpc.CallOption, seen *sight) error {
	err := u.invoke(withAttempt(ctx, number, u.said), u.method, u.req, reply, u.cc, seen.options(opts)...)
	if err == nil {
		return nil
	}
	return seen.error(ctx, err)
}

// withAttempt adds to the call's metadata the number of attempts before this one, and the
// key of the context if the call is Keyed and has none there.
func withAttempt(ctx context.Context, number int, said backoff.Idempotency) context.Context {
	keyed := said == backoff.Keyed
	if number <= 1 && !keyed {
		return ctx
	}
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	if number > 1 {
		md.Set(attemptsKey, strconv.Itoa(number-1))
	}
	if keyed && len(md.Get(idempotencyKey)) == 0 {
		md.Set(idempotencyKey, backoff.IdempotencyKey(ctx))
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// hedge makes the call under a Hedge.
func (u *unary) hedge(ctx context.Context, hedged *hedge.Hedge, reply any) error {
	classify := withFallback(hedged.Classify)
	empty, deliver := fresh(reply) // attempts that lost may still begin when the caller has the reply
	won, err := hedge.Value(ctx, hedged, func(ctx context.Context) (*hedgeReply, error) {
		a := new(hedgeReply)
		own, keep := fresh(empty)
		err := u.attempt(ctx, hedge.Number(ctx)+1, own, a.options(u.opts), &a.seen)
		if err == nil {
			a.keep = keep
			return a, nil
		}
		return a, classified(err, classify)
	}, nil)
	if won != nil {
		won.deliver(u.opts)
	}
	if err == nil {
		won.keep()
		deliver()
	}
	return err
}

// classified marks an error with its class, since a hedge cannot be given
// another classifier. An error that is marked already stays as it is.
func classified(err error, classify backoff.Classifier) error {
	if class := backoff.DefaultClassifier(err); class == backoff.ClassOverloaded || class == backoff.ClassPermanent {
		return err
	}
	if class := classify(err); class != backoff.ClassOverloaded {
		return backoff.OfClass(err, class)
	}
	return overloaded(err)
}

// hedgeReply is what one attempt of a hedged call returns.
type hedgeReply struct {
	keep   func() // the message
	header metadata.MD
	seen   sight
}

// options returns opts for one attempt, which must not fill in what the caller wants
// of the call.
func (a *hedgeReply) options(opts []grpc.CallOption) []grpc.CallOption {
	own := slices.DeleteFunc(slices.Clone(opts), func(o grpc.CallOption) bool {
		switch o.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.PeerCallOption:
			return true
		}
		return false
	})
	return append(own, grpc.Header(&a.header))
}

// deliver copies the results to where opts point.
func (a *hedgeReply) deliver(opts []grpc.CallOption) {
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = a.header
		case grpc.TrailerCallOption:
			*o.TrailerAddr = a.seen.trailer
		case grpc.PeerCallOption:
			*o.PeerAddr = a.seen.peer
		}
	}
}
