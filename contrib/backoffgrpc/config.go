// Package backoffgrpc carries gRPC calls through transient failure by the policies and hedges of package
// backoff: interceptors for clients, which obey pushback and RetryInfo, interceptors for servers,
// which give them, and service configs read and written.
package backoffgrpc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/gobackoff/backoff"
)

// A Method says how the calls of a method are carried through failure. The zero value makes one
// attempt of each.
type Method struct {
	// Policy retries. nil means none. It is asked as it is but for errors that its Classify
	// has no opinion on: for these [Classify] is asked, so that what is not known is final.
	// AttemptTimeout does not apply to streams.
	Policy *backoff.Policy
	// Hedge sends a call again while it is slow, which grpc-go itself does not do. nil means none. It must be
	// nil beside a Policy. It applies to unary calls only: a stream is opened once.
	Hedge *backoff.Hedge
	// Timeout limits a call with all its attempts, beside the deadline of its context. 0 and negative mean no limit.
	Timeout time.Duration
	// WaitForReady is for calls that do not say it themselves. nil leaves them alone.
	WaitForReady *bool
}

// A Config is what a client does with its methods. The zero value does nothing. It is safe for
// concurrent use and must not be changed once it is given to a client.
type Config struct {
	// Methods is by full name: "/package.Service/Method", or "/package.Service/" for all others of
	// the service, or "" for all others. The most specific entry alone counts.
	Methods map[string]Method
}

var errBoth = errors.New("has a Policy and a Hedge: retry or hedge, not both")

// Validate says what is wrong with the config, naming the method and the field, or returns nil. A
// call under an invalid config is refused with that error, whatever its method.
func (c *Config) Validate() error {
	if c == nil {
		return errors.New("backoffgrpc: Config is nil")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Methods)) {
		if err := c.Methods[name].validate(name); err != nil {
			return fmt.Errorf("backoffgrpc: method %q: %w", name, err)
		}
	}
	return nil
}

func (m Method) validate(name string) error {
	if name != "" && (!strings.HasPrefix(name, "/") || strings.Count(name, "/") != 2 || strings.HasPrefix(name, "//")) {
		return errors.New(`is no full name, want "/package.Service/Method", "/package.Service/" or ""`)
	}
	switch {
	case m.Policy != nil && m.Hedge != nil:
		return errBoth
	case m.Policy != nil:
		return m.Policy.Validate()
	case m.Hedge != nil:
		return m.Hedge.Validate()
	}
	return nil
}

// DialOptions returns what a client needs: both interceptors, and grpc.WithDisableRetry, since two loops
// around one another would multiply. Transparent retries of grpc-go, of what no server has seen,
// go on; a service config's retryPolicy does not, so read it with [ParseServiceConfig].
func (c *Config) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(c.Unary()),
		grpc.WithChainStreamInterceptor(c.Stream()),
	}
}

// client is a Config made ready.
type client struct {
	methods map[string]Method
	invalid error
}

func (c *Config) client() *client {
	made := &client{invalid: c.Validate(), methods: make(map[string]Method)}
	if made.invalid != nil {
		return made
	}
	for name, m := range c.Methods {
		if m.Policy != nil {
			policy := *m.Policy
			policy.Classify = falling(policy.Classify)
			m.Policy = &policy
		}
		made.methods[name] = m
	}
	return made
}

// lookup returns the most specific entry.
func (c *client) lookup(method string) Method {
	if m, ok := c.methods[method]; ok {
		return m
	}
	if m, ok := c.methods[method[:strings.LastIndexByte(method, '/')+1]]; ok {
		return m
	}
	return c.methods[""]
}

// options adds what the method says to the options of a call, which may say otherwise.
func (m Method) options(opts []grpc.CallOption) []grpc.CallOption {
	if m.WaitForReady == nil {
		return opts
	}
	return append([]grpc.CallOption{grpc.WaitForReady(*m.WaitForReady)}, opts...)
}
