// Package backoffgrpc retries and hedges gRPC calls by the policies of package
// backoff.
//
//	config := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{
//		"/shop.Orders/Get": {}, // retried by the zero policy
//		// The others are sent again only if no server has seen them.
//		"": {Policy: backoff.Policy{Idempotency: backoff.NonIdempotent}},
//	}}
//	options := append(config.DialOptions(), grpc.WithTransportCredentials(creds))
//	conn, err := grpc.NewClient("dns:///orders.example", options...)
//
// The interceptors of a [Config] obey pushback and RetryInfo. [UnaryServer]
// and [StreamServer] are interceptors for servers, which send them.
// [ParseServiceConfig] reads a service config. The Services of a Config put a
// breaker and a budget around the calls to each server.
package backoffgrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/hedge"
)

// A Method says how the calls of a method are retried or hedged. The zero value
// retries them as the zero backoff.Policy says.
type Method struct {
	// Policy retries. It is used as it is, except for errors that its Classify
	// has no opinion on: they are classified by [Classify], so unknown errors
	// are permanent. AttemptTimeout does not apply to streams. It has no budget that
	// neither it nor the Services of the Config bring. The pace.Pacer that these
	// have by default makes calls wait when the server says RESOURCE_EXHAUSTED, and
	// bounds the other retries.
	//
	// A policy with nothing but MaxAttempts: 1 switches retries off, and leaves
	// calls, streams and their errors as they are.
	Policy backoff.Policy
	// Control takes the place of Policy, to change it while the program runs: it
	// is a *control.Handle. Current returns the policy of the calls that begin
	// now, as the same pointer until it changes, and, if that policy is limited
	// to one attempt by an override, a function that makes the error of a call
	// permanent to policies around it. nil means Policy, which must be zero otherwise.
	Control interface {
		Current() (policy *backoff.Policy, final func(context.Context, error) error)
	}
	// Hedge sends a call again while it is slow, which grpc-go itself does
	// not do. It takes the place of Policy, which must be zero, and of Control.
	// It applies to unary calls only: a stream is opened once. nil means no
	// hedging.
	Hedge *hedge.Hedge
	// Timeout limits a call with all its attempts, in addition to the
	// deadline of its context. 0 and negative numbers mean no limit.
	Timeout time.Duration
	// WaitForReady is the default for calls that do not set it themselves.
	// nil leaves the default of grpc-go: it fails calls at once while the server
	// refuses connections, and dials again only after about a second, so all 4
	// attempts of the zero policy may be over by then. true makes an attempt
	// wait for the connection, as long as the context and Timeout allow.
	WaitForReady *bool
	// MaxBuffer is how many bytes of its messages a stream keeps, so that it can
	// be opened again. 0 means 256 KiB, as in grpc-go; negative means no limit.
	MaxBuffer int64
}

// A Config says what a client does with its methods. The zero value does
// nothing. It is safe for concurrent use. It must not be changed once a client
// uses it. Calls whose policy is backoff.Keyed send the metadata "idempotency-key",
// which the server must know.
type Config struct {
	// Methods has an entry for each full name: "/package.Service/Method",
	// "/package.Service/" for all other methods of the service, or "" for
	// all others. Only the most specific entry counts. Calls of methods without
	// an entry are left as they are.
	Methods map[string]Method
	// Services are the guards of unary calls that are retried. The key is the
	// target of the connection, such as "dns:///orders.example"; other clients may
	// share them. A call that a breaker refuses has the status UNAVAILABLE. While an
	// override of its Control switches retries off, a call does not wait. Streams,
	// hedged calls and calls that are left as they are have no guards. nil means
	// that no call has any.
	//
	// All calls to a server share its budget. If the server throttles each of several
	// credentials by itself, make a Config for each, with Services whose New gives
	// the Service of a server the same Breaker. See also guard.Service.Tenant.
	Services *guard.Services
}

// Validate returns an error that says what is wrong with the config, and in
// which method and field, or nil. A call under an invalid config fails with
// that error, whatever its method.
func (c *Config) Validate() error {
	if c == nil {
		return errors.New("backoffgrpc: Config is nil")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Methods)) {
		m := c.Methods[name]
		if err := m.validate(name); err != nil {
			return fmt.Errorf("backoffgrpc: method %q: %w", name, err)
		}
	}
	return nil
}

// validate returns what is wrong with the method of a name.
func (m *Method) validate(name string) error {
	if name != "" && (!strings.HasPrefix(name, "/") || strings.Count(name, "/") != 2 || strings.HasPrefix(name, "//")) {
		return errors.New(`is no full name, want "/package.Service/Method", "/package.Service/" or ""`)
	}
	switch set := !isZero(m.Policy); {
	case set && m.Control != nil:
		return errors.New("has a Policy and a Control, which takes its place: set one of them")
	case m.Hedge != nil && (set || m.Control != nil):
		return errors.New("has a Hedge beside a Policy or a Control: retry or hedge, not both")
	case m.Hedge != nil:
		return m.Hedge.Validate()
	}
	policy, _ := m.current()
	return policy.Validate()
}

// isZero reports whether no field of a policy is set.
func isZero(p backoff.Policy) bool { return reflect.ValueOf(p).IsZero() }

// DialOptions returns the options that a client needs: both interceptors, and
// grpc.WithDisableRetry, since two loops around each other would multiply the
// attempts. Transparent retries of grpc-go, of calls that no server has seen,
// still happen. The retryPolicy of a service config is not used: read it with
// [ParseServiceConfig].
//
// The end of an attempt does not end its connection: grpc-go makes the next one over
// the same, also if it has gone silent. Only keepalive finds that out. The server
// must allow it by a keepalive.EnforcementPolicy with the same MinTime, or it ends
// connections with pings more often than each 5 minutes:
//
//	grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second})
func (c *Config) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(c.Unary()),
		grpc.WithChainStreamInterceptor(c.Stream()),
	}
}

// client is a Config that was checked and prepared.
type client struct {
	methods   map[string]*method
	invalid   error
	endpoints *endpoints
	services  *guard.Services // nil without guards
}

// client prepares the config.
func (c *Config) client() *client {
	made := &client{invalid: c.Validate(), methods: make(map[string]*method), endpoints: &endpoints{other: endpoint.Endpoint{Name: "other"}}}
	if made.invalid != nil {
		return made
	}
	made.services = c.Services
	for name, m := range c.Methods {
		made.methods[name] = &method{Method: m, plain: m.isPlain()}
	}
	return made
}

// method is a Method that is in use.
type method struct {
	Method
	plain bool                    // its calls are neither retried nor hedged
	last  atomic.Pointer[carried] // under which the last call was made
}

// other is the method of calls without an entry.
var other = &method{plain: true}

// isPlain reports whether the policy does nothing but switch retries off.
func (m *Method) isPlain() bool {
	rest := m.Policy
	rest.MaxAttempts = 0
	return m.Policy.MaxAttempts == 1 && isZero(rest)
}

// carried is the policy of calls, as the interceptors use it.
type carried struct {
	source *backoff.Policy // from which it was made
	policy backoff.Policy
	final  func(context.Context, error) error // makes the error of a call permanent; nil unless an override asks for that
}

// current returns the policy of the calls that begin now, and what makes their
// errors permanent, if anything does.
func (m *Method) current() (policy *backoff.Policy, final func(context.Context, error) error) {
	if m.Control == nil {
		return &m.Policy, nil
	}
	return m.Control.Current()
}

// carry returns the policy of a call that begins now, nil if there is none.
func (m *method) carry() *carried {
	if m.plain || m.Hedge != nil {
		return nil
	}
	source, final := m.current()
	if last := m.last.Load(); last != nil && last.source == source {
		return last
	}
	made := &carried{source: source, policy: *source, final: final}
	made.policy.Classify = forPolicy(source.Classify)
	m.last.Store(made)
	return made
}

// error returns the error of a call under the policy.
func (c *carried) error(ctx context.Context, err error) error {
	if c.final != nil {
		err = c.final(ctx, err)
	}
	return callError(ctx, err)
}

// lookup returns the most specific entry for a method.
func (c *client) lookup(name string) *method {
	for _, entry := range [...]string{name, name[:strings.LastIndexByte(name, '/')+1], ""} {
		if m, ok := c.methods[entry]; ok {
			return m
		}
	}
	return other
}

// options puts the options of the method before those of a call, which may
// override them.
func (m *Method) options(opts []grpc.CallOption) []grpc.CallOption {
	if m.WaitForReady == nil {
		return opts
	}
	return append([]grpc.CallOption{grpc.WaitForReady(*m.WaitForReady)}, opts...)
}
