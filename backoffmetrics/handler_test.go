package backoffmetrics_test

import (
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
)

const open = "application/openmetrics-text"

func TestTheFormatIsTheOneAskedFor(t *testing.T) {
	var m backoffmetrics.Metrics
	m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	for accept, want := range map[string]string{
		"":                                "text/plain",
		"*/*":                             "text/plain",
		"text/html":                       "text/plain",
		open:                              open,
		open + ";version=1.0.0":           open,
		open + ";version=0.0.1":           "text/plain",
		open + ";version=2.0.0":           "text/plain",
		open + ";q=0":                     "text/plain",
		open + ";q=2":                     "text/plain",
		open + ";q=x":                     "text/plain",
		open + ";q=0.2, text/plain;q=0.5": "text/plain",
		open + ";q=0.5,text/plain;q=0.5":  open,
		"nonsense;;=,," + open:            open,
		open + ";version=1.0.0;escaping=allow-utf-8;q=0.6," + open + ";version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": open, // Prometheus 3
	} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, r)
		kind, params, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
		require.NoError(t, err)
		require.Equal(t, want, kind, accept)
		require.Equal(t, kind == open, strings.HasSuffix(w.Body.String(), "# EOF\n"))
		require.Equal(t, map[bool]string{true: "1.0.0", false: "0.0.4"}[kind == open], params["version"])
	}
}

func FuzzAccept(f *testing.F) {
	for _, accept := range []string{"", open, open + ";q=0.5,*/*", "a/b;q=\"", ";;,=\x00", open + ";q=NaN"} {
		f.Add(accept)
	}
	var m backoffmetrics.Metrics
	f.Fuzz(func(t *testing.T, accept string) {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header["Accept"] = []string{accept}
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, r)
		require.Equal(t, 200, w.Code)
		if strings.HasPrefix(w.Header().Get("Content-Type"), open) {
			require.Contains(t, strings.ToLower(accept), open)
		}
	})
}

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

func ExampleMetrics_Handler() {
	var metrics backoffmetrics.Metrics
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.Handler())

	server := httptest.NewServer(mux)
	defer server.Close()
	resp, err := http.Get(server.URL + "/metrics")
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
	fmt.Println(resp.Status, resp.Header.Get("Content-Type"))
	// Output: 200 OK text/plain; version=0.0.4; charset=utf-8
}
