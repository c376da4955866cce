package backoffgrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

// A proxy may call what a stranger names, and a server may say anything.
func TestNamesOfMethodsAndMessagesForgeNoLineOfALogOrOfMetrics(t *testing.T) {
	metrics := new(backoffmetrics.Metrics)
	var log bytes.Buffer
	config := retrying(func(p *backoff.Policy) {
		p.Observer = backoff.JoinObservers(metrics.Observe, backoffslog.New(slog.New(slog.NewTextHandler(&log, nil)), nil))
	})
	conn := connect(t, "example.test", &backoffgrpc.Config{})
	for _, method := range []string{
		"/a/b\"} 1\nfake_total 1\n", "/a/\xff\xfe", "/a/\x1b[2J", "/a/\u202e", `/a/\`, "/" + strings.Repeat("x", 5000) + "/y", `/a/b{c="d"}`,
	} {
		require.Error(t, config.Unary()(t.Context(), method, nil, nil, conn,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				return status.Error(codes.Unavailable, "down\nlevel=ERROR msg=forged\x1b[2J")
			}))
	}
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		require.Regexp(t, `^(#|backoff_)`, line)
	}
	require.True(t, json.Valid([]byte(metrics.String())))
	for line := range strings.Lines(log.String()) {
		require.Regexp(t, `^time=`, line)
		require.NotContains(t, line, "\x1b")
	}
}
