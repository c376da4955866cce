package backoffgrpc

import (
	"context"
	"reflect"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gobackoff/backoff"
)

// Unary returns an interceptor that makes unary calls as the config says.
//
// A pushback of the server (grpc-retry-pushback-ms) is waited exactly, and ends the call if it is
// negative; a RetryInfo in the status is waited at least. Attempts after the first say so to the
// server, by grpc-previous-rpc-attempts. Options of the call, such as WaitForReady, hold for every attempt.
//
// The error of a call carries the status of its last attempt as the server sent it, details
// included, and DEADLINE_EXCEEDED or CANCELLED once the call's context has ended; errors.As finds the [*backoff.Error] of
// a policy that gave up. Policies around the call take it for final.
//
// Attempts of a hedged call run at the same time, each with a reply of its own, of
// which the winner's is copied; so are its header, trailer and peer. The request must not be
// changed after the call returns, as an attempt that lost may be reading it still.
func (c *Config) Unary() grpc.UnaryClientInterceptor { return c.client().unary }

func (c *client) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if c.invalid != nil {
		return outward(ctx, backoff.Permanent(c.invalid))
	}
	m := c.lookup(method)
	if m.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.Timeout)
		defer cancel()
	}
	u := &unary{method: method, req: req, cc: cc, invoke: invoke, opts: m.options(opts)}
	switch {
	case m.Policy != nil:
		return outward(ctx, u.retry(ctx, m.Policy, reply))
	case m.Hedge != nil:
		return outward(ctx, u.hedge(ctx, m.Hedge, reply))
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
}

func (u *unary) retry(ctx context.Context, policy *backoff.Policy, reply any) error {
	made := 0
	return policy.Do(ctx, func(ctx context.Context) error {
		made++
		return u.attempt(ctx, made, reply, u.opts)
	})
}

// attempt makes one, counted from 1.
func (u *unary) attempt(ctx context.Context, number int, reply any, opts []grpc.CallOption) error {
	var trailer metadata.MD
	var to peer.Peer
	own := make([]grpc.CallOption, 0, len(opts)+2)
	own = append(append(own, opts...), grpc.Trailer(&trailer), grpc.Peer(&to))
	err := u.invoke(announce(ctx, number), u.method, u.req, reply, u.cc, own...)
	if err == nil {
		return nil
	}
	return failed(ctx, err, trailer, to.Addr == nil && status.Code(err) == codes.Unavailable)
}

// announce tells the server of the attempts before this one.
func announce(ctx context.Context, number int) context.Context {
	if number <= 1 {
		return ctx
	}
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(attemptsKey, strconv.Itoa(number-1))
	return metadata.NewOutgoingContext(ctx, md)
}

func (u *unary) hedge(ctx context.Context, hedge *backoff.Hedge, reply any) error {
	classify := falling(hedge.Classify)
	won, err := backoff.HedgeValue(ctx, hedge, func(ctx context.Context) (*answer, error) {
		a := &answer{reply: another(reply)}
		err := u.attempt(ctx, backoff.HedgeNumber(ctx)+1, a.reply, a.options(u.opts))
		if err == nil {
			return a, nil
		}
		return a, classified(err, classify)
	}, nil)
	if won != nil {
		won.deliver(u.opts)
	}
	if err == nil {
		assign(reply, won.reply)
	}
	return err
}

// classified marks an error with its class, as a hedge cannot be given another classifier. What
// is marked already stays so.
func classified(err error, classify backoff.Classifier) error {
	if class := backoff.DefaultClassifier(err); class == backoff.ClassOverloaded || class == backoff.ClassPermanent {
		return err
	}
	return backoff.WithClass(err, classify(err))
}

// answer is what one of several attempts at the same time returns.
type answer struct {
	reply           any
	header, trailer metadata.MD
	peer            peer.Peer
}

// options returns opts for one attempt, with what they point to replaced.
func (a *answer) options(opts []grpc.CallOption) []grpc.CallOption {
	own := make([]grpc.CallOption, 0, len(opts))
	for _, o := range opts {
		switch o.(type) {
		case grpc.HeaderCallOption:
			o = grpc.Header(&a.header)
		case grpc.TrailerCallOption:
			o = grpc.Trailer(&a.trailer)
		case grpc.PeerCallOption:
			o = grpc.Peer(&a.peer)
		}
		own = append(own, o)
	}
	return own
}

// deliver fills in what opts point to.
func (a *answer) deliver(opts []grpc.CallOption) {
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = a.header
		case grpc.TrailerCallOption:
			*o.TrailerAddr = a.trailer
		case grpc.PeerCallOption:
			*o.PeerAddr = a.peer
		}
	}
}

// another returns a new value of the type that reply points to.
func another(reply any) any {
	if m, ok := reply.(proto.Message); ok {
		return m.ProtoReflect().New().Interface()
	}
	return reflect.New(reflect.TypeOf(reply).Elem()).Interface()
}

// assign copies what from points to.
func assign(to, from any) {
	if m, ok := to.(proto.Message); ok {
		proto.Reset(m)
		proto.Merge(m, from.(proto.Message))
		return
	}
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
}
