package backoffmetrics_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
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

func TestThePageWorksWhereverItIsMounted(t *testing.T) {
	var m backoffmetrics.Metrics
	h := m.Handler()
	for base, mux := range map[string]*http.ServeMux{
		"/":               mount("/", h),
		"/debug/backoff/": mount("/debug/backoff/", h),
		"/stripped/":      mount("/stripped/", http.StripPrefix("/stripped", h)),
		"/bare/":          mount("/bare/", http.StripPrefix("/bare/", h)),
		"/method/":        mount("GET /method/", h),
	} {
		server := httptest.NewServer(mux)
		for path, kind := range map[string]string{"": "text/html", "metrics": "text/plain", "data": "application/json"} {
			resp, err := http.Get(server.URL + base + path)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode, base+path)
			require.True(t, strings.HasPrefix(resp.Header.Get("Content-Type"), kind), base+path)
			require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
			resp.Body.Close()
		}
		server.Close()
	}
}

func mount(pattern string, h http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(pattern, h)
	return mux
}

// Without the slash the page would look for its data in the wrong place.
func TestAMissingSlashIsAdded(t *testing.T) {
	var m backoffmetrics.Metrics
	server := httptest.NewServer(mount("/debug/backoff", http.StripPrefix("/debug/backoff", m.Handler())))
	defer server.Close()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(server.URL + "/debug/backoff?x=//elsewhere")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusTemporaryRedirect, resp.StatusCode)
	require.Equal(t, "./backoff/", resp.Header.Get("Location"))
}

func TestWhatIsNotThereIsRefused(t *testing.T) {
	var m backoffmetrics.Metrics
	for method, paths := range map[string]map[string]int{
		"GET":    {"/other": 404, "/metrics/x": 404, "/page.js": 404},
		"HEAD":   {"/": 200, "/metrics": 200, "/data": 200},
		"POST":   {"/": 405, "/metrics": 405},
		"DELETE": {"/data": 405},
	} {
		for path, want := range paths {
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
			require.Equal(t, want, w.Code, method+" "+path)
			if want == 405 {
				require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
			}
		}
	}
}

// The policy allows what the page contains, and nothing else. The page contains
// nothing that would need more.
func TestThePageRunsOnlyWhatItBrought(t *testing.T) {
	var m backoffmetrics.Metrics
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	policy, page := w.Header().Get("Content-Security-Policy"), w.Body.String()
	for _, directive := range []string{"default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
		require.Contains(t, policy, directive)
	}
	require.NotContains(t, policy, "unsafe")
	for _, tag := range []string{"style", "script"} {
		found := regexp.MustCompile("(?s)<"+tag+">(.*?)</"+tag+">").FindAllStringSubmatch(page, -1)
		require.Len(t, found, 1)
		sum := sha256.Sum256([]byte(found[0][1]))
		require.Contains(t, policy, tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	require.NotRegexp(t, `(?i)\s(on\w+|style)=`, regexp.MustCompile("(?s)<(style|script)>.*?</(style|script)>").ReplaceAllString(page, ""))
	require.NotRegexp(t, `(src|href)="(https?:)?//`, page)
	require.NotContains(t, page, "innerHTML")
}

func ExampleMetrics_Handler() {
	var metrics backoffmetrics.Metrics
	mux := http.NewServeMux()
	// This is a page. Prometheus reads /debug/backoff/metrics.
	mux.Handle("/debug/backoff/", metrics.Handler())

	server := httptest.NewServer(mux)
	defer server.Close()
	for _, path := range []string{"/debug/backoff/", "/debug/backoff/metrics"} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			panic(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		fmt.Println(resp.Status, resp.Header.Get("Content-Type"))
	}
	// Output:
	// 200 OK text/html; charset=utf-8
	// 200 OK text/plain; version=0.0.4; charset=utf-8
}
