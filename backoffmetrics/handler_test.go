package backoffmetrics_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
)

// Any name is one label on one line, and can be read back by the rules of the
// format.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "fetch", "a\"b", "a\\", "a\nb", "\xff", "é\u2028", `\n`} {
		f.Add(name)
	}
	line := regexp.MustCompile(`(?m)^backoff_attempts_total\{operation="((?:[^"\\\n]|\\["\\n])*)"\} 1$`)
	f.Fuzz(func(t *testing.T, name string) {
		var m backoffmetrics.Metrics
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: name, Attempt: 1})
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		found := line.FindStringSubmatch(w.Body.String())
		require.NotNil(t, found, "%q", name)
		got := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(found[1])
		switch {
		case name == "":
			require.Equal(t, "unnamed", got)
		case len(name) > 200:
			require.Equal(t, "other", got)
		default:
			require.Equal(t, strings.ToValidUTF8(name, "\uFFFD"), got)
		}
	})
}

func TestOnlyReadingIsServed(t *testing.T) {
	var m backoffmetrics.Metrics
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405} {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(method, "/metrics", nil))
		require.Equal(t, want, w.Code, method)
	}
}
