// Package page serves a page that says what policies, hedges and breakers do,
// what is wrong, and where to look. It shows what a [backoffmetrics.Metrics]
// counts.
//
//	var metrics backoffmetrics.Metrics
//
//	http.Handle("/debug/backoff/", page.Handler(&metrics))
//
// All counts of the page are of the same window, which it names: the last 5
// minutes, or the time since the first call of Handler. A budget has a window of
// its own. The window is longer after a time in which the page was not opened and
// no call failed or was retried.
//
// How long attempts take and how many are in flight is known only of those that
// a client measures: see package endpoint. The kinds of errors are their classes
// and types, as the function ErrorType of package backoffslog says, at most 7 for
// each operation.
package page

import (
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/internal/sameorigin"
)

// Handler serves three things, at any path that it is mounted at. The path
// itself, which must end in a slash, is a page for people. "metrics" below it
// is the text for Prometheus: see [backoffmetrics.Metrics.Handler]. "data" below
// it is the JSON that the page is made of; its form may change.
//
// Call Handler when the program starts: it counts the kinds of errors and
// remembers the last minutes from its first call on. For that, a failed attempt
// costs up to 0.5 us and a few small allocations more; every 5 seconds, a call
// that fails or is retried reads all counters on its goroutine. An operation takes 14 kB.
//
// The page also shows the overrides in force of the panels, with who made them and
// why. The series count the overrides. Package controlhttp serves a panel itself,
// and lists what can be changed.
//
// The page loads nothing from elsewhere. The handler does not authenticate:
// everyone who may reach it sees the names of operations, the types of their
// errors, and which program runs on which host: its version, the process and
// when it started. Web pages of others do not see it through a browser. On a
// loopback address every request is refused whose Host is a name other than
// localhost, since a web page can rebind its own name to that address; a proxy in
// front must set the Host to localhost.
func Handler(m *backoffmetrics.Metrics, panels ...*control.Panel) http.Handler {
	if len(panels) > 0 {
		m.WatchFamily("backoff_overrides", func() backoffmetrics.Family { return overrideFamily(panels) })
	}
	return &page{history: m.ForPage(newHistory).(*history), panels: panels, metrics: m.Handler()}
}

// page is the Handler.
type page struct {
	*history
	panels  []*control.Panel
	metrics http.Handler
}

// ServeHTTP implements [http.Handler].
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !sameorigin.Admits(w, r) {
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] {
	case "":
		if !addSlash(w, r) {
			serveDocument(w)
		}
	case "data":
		text, _ := json.Marshal(p.pageData()) // none of its types can fail
		reply(w, "application/json", text)
	case "metrics":
		p.metrics.ServeHTTP(w, r)
	default:
		http.Error(w, "not found: the page is at a path that ends in a slash, and metrics is below it", http.StatusNotFound)
	}
}

// reply writes a response.
func reply(w http.ResponseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
)

// document is the page with its headers. It is a single document. Its style and its script are
// allowed by their hashes, so that no other script runs, whatever gets into the page.
var document = sync.OnceValues(func() (text []byte, policy string) {
	html := strings.NewReplacer("{{style}}", pageStyle, "{{script}}", pageScript).Replace(pageHTML)
	policy = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; style-src " + hashOf(pageStyle) + "; script-src " + hashOf(pageScript)
	return []byte(html), policy
})

// hashOf returns the hash of a text as a Content-Security-Policy names it.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// serveDocument serves the page.
func serveDocument(w http.ResponseWriter) {
	text, policy := document()
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	reply(w, "text/html; charset=utf-8", text)
}

// addSlash redirects a request for the page without its final slash, since the
// page finds its data relative to that. It reports whether it did.
func addSlash(w http.ResponseWriter, r *http.Request) bool {
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	if r.URL.Path != "" || strings.HasSuffix(asked, "/") {
		return false
	}
	w.Header().Set("Location", "./"+path.Base(asked)+"/")
	w.WriteHeader(http.StatusTemporaryRedirect)
	return true
}
