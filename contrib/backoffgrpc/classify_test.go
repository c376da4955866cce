package backoffgrpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/plug"
)

// once is a policy that leaves retries to others, which shows its errors.
func once(p *backoff.Policy) { p.MaxAttempts = 1 }

func TestNotSentIsWhatEveryErrorOfATreeSays(t *testing.T) {
	unsent := call(t, dial(t, "127.0.0.1:1", retrying(once)))
	sent := call(t, dial(t, (&service{unary: fails(9, codes.Unavailable)}).serve(t), retrying(once)))
	no := status.Error(codes.NotFound, "no such order")
	for name, c := range map[string]struct {
		err  error
		want backoff.Class
	}{
		"unsent":                 {unsent, backoff.ClassNotSent},
		"wrapped":                {fmt.Errorf("call: %w", unsent), backoff.ClassNotSent},
		"both unsent":            {errors.Join(unsent, nil, unsent), backoff.ClassNotSent},
		"one sent":               {errors.Join(unsent, sent), backoff.ClassRetryable},
		"one sent, other order":  {errors.Join(sent, unsent), backoff.ClassRetryable},
		"one not known":          {fmt.Errorf("%w; %w", unsent, errors.New("x")), backoff.ClassRetryable},
		"deep":                   {fmt.Errorf("a: %w", errors.Join(unsent, fmt.Errorf("b: %w", sent))), backoff.ClassRetryable},
		"one permanent":          {errors.Join(unsent, no), backoff.ClassPermanent},
		"one is of another call": {errors.Join(sent, opened(t, unsent)), backoff.ClassPermanent},
		"one throttled":          {errors.Join(sent, retryInfo(codes.ResourceExhausted, time.Second)), backoff.ClassThrottled},
		"too large to be read":   {errors.Join(unsent, chain(20_000, sent)), backoff.ClassPermanent},
		"a cycle":                {newCycle(), backoff.ClassPermanent},
	} {
		require.Equal(t, c.want, backoffgrpc.Classify(c.err), name)
	}
}

// opened is the error of a breaker whose circuit was opened by err.
func opened(t *testing.T, err error) error {
	b := &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1}
	fail := func(context.Context) error { return backoff.OfClass(err, backoff.ClassRetryable) }
	b.Do(t.Context(), fail)
	refused := b.Do(t.Context(), fail)
	require.ErrorIs(t, refused, backoff.ErrOpen)
	return refused
}

// chain wraps err so many times.
func chain(times int, err error) error {
	for range times {
		err = fmt.Errorf("%w", err)
	}
	return err
}

// cycle is an error that wraps itself twice.
type cycle struct{ all []error }

func newCycle() *cycle {
	c := new(cycle)
	c.all = []error{c, c}
	return c
}

func (*cycle) Error() string     { return "round and round" }
func (c *cycle) Unwrap() []error { return c.all }

func TestATreeWithoutAnEndIsAnErrorLikeOthers(t *testing.T) {
	s := &service{unary: func(context.Context, int) error { return newCycle() }}
	require.Equal(t, codes.Unknown, status.Code(call(t, dial(t, s.serve(t), &backoffgrpc.Config{}))))

	client := dialLimited(t, s, retrying().Methods[""], failing(func() error { return newCycle() }))
	require.ErrorContains(t, call(t, client), "round and round")
}

// failing is an interceptor of a client that fails by itself.
func failing(err func() error) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
		return err()
	})
}

// The status of an open circuit is not that of the call that opened it, and
// neither are its last words.
func TestWhatOpenedACircuitHappenedToAnotherCall(t *testing.T) {
	other := gaveUp(t.Context(), backoffgrpc.RetryAfter(status.Error(codes.NotFound, "no order of Bob's"), time.Hour))
	s := &service{unary: func(context.Context, int) error { return opened(t, other) }}
	server := s.serve(t)
	err := call(t, dial(t, server, retrying(func(p *backoff.Policy) { p.MaxRetryAfter = time.Second })))
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.NotContains(t, err.Error(), "Bob")
	gave := policyError(t, err)
	require.Equal(t, backoff.ReasonRetryAfter, gave.Reason, "it may come again, as nothing was sent")
	require.LessOrEqual(t, gave.RetryAfter(), 5*time.Second, "not the hour of the other call")

	// On the client the breaker is an interceptor.
	for name, m := range map[string]backoffgrpc.Method{"retried": retrying().Methods[""], "hedged": {Hedge: &hedge.Hedge{Delay: time.Hour}}} {
		err = call(t, dialLimited(t, s, m, failing(func() error { return opened(t, other) })))
		require.Equal(t, codes.Unavailable, status.Code(err), "%s: %v", name, err)
	}
}

// An interceptor of the client may fail without a status, and say what is for
// its own side only.
func TestTheTextOfAClientsInterceptorStaysOnTheServerThatIsTheClient(t *testing.T) {
	for name, m := range map[string]backoffgrpc.Method{"retried": retrying().Methods[""], "hedged": {Hedge: &hedge.Hedge{Delay: time.Hour}}} {
		below := dialLimited(t, new(service), m, failing(func() error { return errors.New(secret) }))
		s := &service{unary: func(ctx context.Context, _ int) error {
			_, err := below.UnaryCall(ctx, &pb.SimpleRequest{})
			require.ErrorContains(t, err, secret)
			return err
		}}
		err := call(t, dial(t, s.serve(t), &backoffgrpc.Config{}))
		require.NotContains(t, err.Error(), "10.0.0.7", name)
		require.Equal(t, codes.Unknown, status.Code(err), name)
	}
}

func TestAnInterceptorThatDropsTheOptionsDoesNotMakeACallUnsent(t *testing.T) {
	s := &service{unary: fails(9, codes.Unavailable), duplex: unavailable}
	p := backoff.Policy{Schedule: backoff.Constant(0), Idempotency: backoff.NonIdempotent}
	client := dialLimited(t, s, backoffgrpc.Method{Policy: p}, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			return invoke(ctx, method, req, reply, cc)
		}), grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			inner, err := open(ctx, desc, cc, method)
			if err == nil { // it shakes hands first
				err = inner.RecvMsg(new(pb.StreamingOutputCallResponse))
			}
			return inner, err
		}))
	require.Equal(t, codes.Unavailable, status.Code(call(t, client)))
	require.Equal(t, 1, s.calls())
	require.Equal(t, codes.Unavailable, status.Code(receive(client.ctx, client)))
	require.Equal(t, 2, s.calls())
}

func TestWhatIsLargerThanALimitIsNotSentAgainAndSlowsNobody(t *testing.T) {
	classify, pacer := plug.OnCode(status.Code, codes.ResourceExhausted), new(pace.Pacer)
	for name, c := range map[string]struct {
		opts  []grpc.CallOption
		calls int
	}{
		"sent":                    {[]grpc.CallOption{grpc.MaxCallSendMsgSize(100)}, 0},
		"received":                {[]grpc.CallOption{grpc.MaxCallRecvMsgSize(100)}, 1},
		"received by the service": {nil, 0},
	} {
		for _, m := range []backoffgrpc.Method{
			{Policy: backoff.Policy{Schedule: backoff.Constant(0), Classify: classify, Budget: pacer}},
			{Policy: backoff.Policy{Schedule: backoff.Constant(0), Budget: pacer}},
			{Hedge: &hedge.Hedge{Delay: time.Hour, MaxExtraLoad: -1, Classify: classify, Budget: pacer}},
		} {
			s := &service{unary: fails(0, 0)}
			attempts := 0
			client := dialLimited(t, s, m, grpc.WithChainUnaryInterceptor(
				func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					attempts++
					return invoke(ctx, method, req, reply, cc, opts...)
				}))
			request := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 1000)}}
			if c.opts == nil {
				request.Payload.Body = make([]byte, 5<<20)
			}
			_, err := client.UnaryCall(client.ctx, request, c.opts...)
			require.Equal(t, codes.ResourceExhausted, status.Code(err), name)
			require.Equal(t, c.calls, s.calls(), name)
			require.Equal(t, 1, attempts, "%s: %v", name, err)
			require.False(t, paces(pacer), name)
		}
	}
	s := &service{unary: fails(2, codes.ResourceExhausted)}
	config := retrying(func(p *backoff.Policy) { p.Classify = classify })
	require.NoError(t, call(t, dial(t, s.serve(t), config)), "another RESOURCE_EXHAUSTED is retried")
}

// certified starts s under TLS, and returns its address and who signed its
// certificate.
func certified(t *testing.T, s *service, config *tls.Config) (string, *x509.CertPool) {
	issued := httptest.NewTLSServer(http.NotFoundHandler())
	issued.Close()
	roots := x509.NewCertPool()
	roots.AddCert(issued.Certificate())
	config.Certificates = issued.TLS.Certificates
	l := listen(t)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	pb.RegisterTestServiceServer(server, s)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return l.Addr().String(), roots
}

func TestACertificateThatIsNotTrustedIsAPermanentError(t *testing.T) {
	s := &service{unary: fails(0, 0), duplex: hangs}
	trusting, roots := certified(t, s, &tls.Config{})
	asking := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(), MaxVersion: tls.VersionTLS12}
	distrusting, _ := certified(t, s, asking)
	for name, c := range map[string]struct {
		addr      string
		config    *tls.Config
		permanent bool
	}{
		"signed by a stranger":                  {trusting, &tls.Config{ServerName: "example.com"}, true},
		"of another name":                       {trusting, &tls.Config{ServerName: "example.org", RootCAs: roots}, true},
		"trusted":                               {trusting, &tls.Config{ServerName: "example.com", RootCAs: roots}, false},
		"ours, which the server does not trust": {distrusting, &tls.Config{ServerName: "example.com", RootCAs: roots, Certificates: asking.Certificates}, true},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			config := retrying(func(p *backoff.Policy) {
				p.Observer = func(_ context.Context, e backoff.Event) { attempts = e.Attempt }
			})
			client := pb.NewTestServiceClient(connect(t, c.addr, config, grpc.WithTransportCredentials(credentials.NewTLS(c.config))))
			err := call(t, client)
			t.Log(err)
			require.Equal(t, c.permanent, err != nil, "%v", err)
			require.Equal(t, 1, attempts, "%v", err)
			if c.permanent {
				require.Equal(t, codes.Unavailable, status.Code(err))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err = receive(ctx, client)
				require.Equal(t, codes.Unavailable, status.Code(err))
				_, gaveUp := errors.AsType[*backoff.Error](err)
				require.False(t, gaveUp, "%v", err)
				require.Equal(t, 1, attempts)
			}
		})
	}
}

// Only the client's own connection says so: a server that has trouble with the
// certificate of another one may be well again.
func TestTheTextOfAServerIsNoCertificate(t *testing.T) {
	const text = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
	s := &service{unary: failsOnce(status.Error(codes.Unavailable, text))}
	require.NoError(t, call(t, dial(t, s.serve(t), retrying())))
	require.Equal(t, backoff.ClassRetryable, backoffgrpc.Classify(status.Error(codes.Unavailable, text)))
}
