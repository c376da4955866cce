package page_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffmetrics/page"
	"github.com/gobackoff/backoff/control"
)

func TestThePageWorksWhereverItIsMounted(t *testing.T) {
	var m backoffmetrics.Metrics
	h := page.Handler(&m)
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
			require.Equal(t, "same-origin", resp.Header.Get("Cross-Origin-Resource-Policy"))
			resp.Body.Close()
			require.Equal(t, 403, statusAs(t, server.URL+base+path, "evil.example"), "a name that is rebound")
		}
		server.Close()
	}
}

// statusAs asks for a page by the name of a host.
func statusAs(t *testing.T, url, host string) int {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

func mount(pattern string, h http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(pattern, h)
	return mux
}

// Without the slash the page would look for its data in the wrong place.
func TestAMissingSlashIsAdded(t *testing.T) {
	var m backoffmetrics.Metrics
	server := httptest.NewServer(mount("/debug/backoff", http.StripPrefix("/debug/backoff", page.Handler(&m))))
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
			page.Handler(&m).ServeHTTP(w, httptest.NewRequest(method, path, nil))
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
	page.Handler(&m).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	policy, html := w.Header().Get("Content-Security-Policy"), w.Body.String()
	for _, directive := range []string{"default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
		require.Contains(t, policy, directive)
	}
	require.NotContains(t, policy, "unsafe")
	for _, tag := range []string{"style", "script"} {
		found := regexp.MustCompile("(?s)<"+tag+">(.*?)</"+tag+">").FindAllStringSubmatch(html, -1)
		require.Len(t, found, 1)
		sum := sha256.Sum256([]byte(found[0][1]))
		require.Contains(t, policy, tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	require.NotRegexp(t, `(?i)\s(on\w+|style)=`, regexp.MustCompile("(?s)<(style|script)>.*?</(style|script)>").ReplaceAllString(html, ""))
	require.NotRegexp(t, `(src|href)="(https?:)?//`, html)
	require.NotContains(t, html, "innerHTML")
}

func ExampleHandler() {
	var metrics backoffmetrics.Metrics
	var panel control.Panel
	searching := panel.Policy(backoff.Policy{Name: "search", Observer: metrics.Observe})
	mux := http.NewServeMux()
	// This is a page. Prometheus reads /debug/backoff/metrics.
	mux.Handle("/debug/backoff/", page.Handler(&metrics, &panel))
	_ = searching.Do(context.Background(), func(context.Context) error { return nil })

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
