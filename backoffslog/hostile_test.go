package backoffslog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffslog"
)

// A server sends all that net/http lets it send.
func TestAHostileServerWritesNoMoreThanItsRecords(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 500 {
			w.Header().Add("X-Request-Id", fmt.Sprint(i, "\tlevel=INFO\xff https://ann:hunter2@evil.test/ ", strings.Repeat("x", 1000)))
			w.Header().Add(fmt.Sprint("X-Other-", i), "hunter2")
		}
		w.Header().Set("Retry-After", strings.Repeat("9", 10_000))
		w.Header().Set("Set-Cookie", "session=hunter2")
		w.Header().Set("Location", "https://ann:hunter2@evil.test/")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(bytes.Repeat([]byte("hunter2\n"), 1<<17))
	}))
	defer server.Close()
	for name, make := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		client := &http.Client{Transport: &backoffhttp.Transport{Policy: backoff.Policy{
			Name: strings.Repeat("n\n", 1<<20), MaxAttempts: 3, Schedule: backoff.Constant(time.Millisecond),
			Observer: backoffslog.New(slog.New(make(&out)), nil),
		}}}
		resp, err := client.Get(server.URL + "/?token=hunter2")
		if err == nil {
			resp.Body.Close()
		}
		require.Positive(t, out.Len())
		require.NotContains(t, out.String(), "hunter2", name)
		for line := range strings.Lines(out.String()) {
			require.Less(t, len(line), 10_000, name)
			require.True(t, strings.HasPrefix(line, "time=") || strings.HasPrefix(line, `{"time":`), "%s: %.100s", name, line)
		}
		require.LessOrEqual(t, strings.Count(out.String(), "\n"), 3, name)
	}
}
