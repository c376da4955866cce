// Package backoffgrpc retries and hedges gRPC calls by the policies of package
// backoff. It has interceptors for clients, which obey pushback and RetryInfo,
// interceptors for servers, which send them, and functions that read and write
// service configs.
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

// A Method says how the calls of a method are retried or hedged. The zero value
// makes one attempt of each call.
type Method struct {
	// Policy retries. nil means no retries. The policy is used as it is,
	// except for errors that its Classify has no opinion on: they are
	// classified by [Classify], so unknown errors are final. AttemptTimeout
	// does not apply to streams. Unlike a client of package backoffhttp, a
	// policy has no budget that it is not given. One pace.Pacer as the Budget
	// of all policies for a server makes calls wait when the server says
	// RESOURCE_EXHAUSTED, and bounds the other retries.
	Policy *backoff.Policy
	// Hedge sends a call again while it is slow, which grpc-go itself does
	// not do. nil means no hedging. It must be nil if there is a Policy. It
	// applies to unary calls only: a stream is opened once.
	Hedge *backoff.Hedge
	// Timeout limits a call with all its attempts, in addition to the
	// deadline of its context. 0 and negative numbers mean no limit.
	Timeout time.Duration
	// WaitForReady is the default for calls that do not set it themselves.
	// nil leaves the default of grpc-go.
	WaitForReady *bool
}

// A Config says what a client does with its methods. The zero value does
// nothing. It is safe for concurrent use. It must not be changed once a client
// uses it.
type Config struct {
	// Methods has an entry for each full name: "/package.Service/Method",
	// "/package.Service/" for all other methods of the service, or "" for
	// all others. Only the most specific entry counts.
	Methods map[string]Method
}

var errBoth = errors.New("has a Policy and a Hedge: retry or hedge, not both")

// Validate returns an error that says what is wrong with the config, and in
// which method and field, or nil. A call under an invalid config fails with
// that error, whatever its method.
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

// validate returns what is wrong with the method of a name.
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

// DialOptions returns the options that a client needs: both interceptors, and
// grpc.WithDisableRetry, since two loops around each other would multiply the
// attempts. Transparent retries of grpc-go, of calls that no server has seen,
// still happen. The retryPolicy of a service config is not used: read it with
// [ParseServiceConfig].
func (c *Config) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(c.Unary()),
		grpc.WithChainStreamInterceptor(c.Stream()),
	}
}

// client is a Config that was checked and prepared.
type client struct {
	methods map[string]Method
	invalid error
}

// client prepares the config.
func (c *Config) client() *client {
	made := &client{invalid: c.Validate(), methods: make(map[string]Method)}
	if made.invalid != nil {
		return made
	}
	for name, m := range c.Methods {
		if m.Policy != nil {
			policy := *m.Policy
			policy.Classify = forPolicy(policy.Classify)
			m.Policy = &policy
		}
		made.methods[name] = m
	}
	return made
}

// lookup returns the most specific entry for a method.
func (c *client) lookup(method string) Method {
	if m, ok := c.methods[method]; ok {
		return m
	}
	if m, ok := c.methods[method[:strings.LastIndexByte(method, '/')+1]]; ok {
		return m
	}
	return c.methods[""]
}

// options puts the options of the method before those of a call, which may
// override them.
func (m Method) options(opts []grpc.CallOption) []grpc.CallOption {
	if m.WaitForReady == nil {
		return opts
	}
	return append([]grpc.CallOption{grpc.WaitForReady(*m.WaitForReady)}, opts...)
}
