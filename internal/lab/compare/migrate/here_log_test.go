package migrate

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

type logAttempts struct{ http.RoundTripper }

func (l logAttempts) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(req)
	outcome := any(err)
	if err == nil {
		outcome = resp.Status
	}
	slog.Debug("attempt", "retry", backoffhttp.RetryNumber(req.Context()), "method", req.Method, "url", req.URL.Redacted(), "outcome", outcome)
	return resp, err
}

func TestTheLoggerOfAttemptsWritesALineForEach(t *testing.T) {
	answers := []int{503, 200}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	var lines bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug})))
	client := &http.Client{Transport: &backoffhttp.Transport{
		Base:   logAttempts{http.DefaultTransport},
		Policy: backoff.Policy{Schedule: backoff.Constant(time.Millisecond)},
	}}
	resp, err := client.Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 2, strings.Count(lines.String(), "\n"), lines.String())
	require.Contains(t, lines.String(), `retry=0 method=GET url=`+server.URL+` outcome="503 Service Unavailable"`)
	require.Contains(t, lines.String(), `retry=1 method=GET url=`+server.URL+` outcome="200 OK"`)
}
