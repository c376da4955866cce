package backoffgrpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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
)

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

func TestACertificateThatIsNotTrustedIsFinal(t *testing.T) {
	s := &service{unary: fails(0, 0), duplex: hangs}
	trusting, roots := certified(t, s, &tls.Config{})
	asking := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(), MaxVersion: tls.VersionTLS12}
	distrusting, _ := certified(t, s, asking)
	for name, c := range map[string]struct {
		addr   string
		config *tls.Config
		final  bool
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
			require.Equal(t, c.final, err != nil, "%v", err)
			require.Equal(t, 1, attempts, "%v", err)
			if c.final {
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
