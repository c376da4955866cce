package backoffmetrics

import (
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"sync"
)

var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/page.js
	pageScript string
)

// page is a single document. Its style and its script are allowed by their
// hashes, so that no other script runs, whatever gets into the page.
var page = sync.OnceValues(func() (text []byte, policy string) {
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

// servePage serves the page.
func servePage(w http.ResponseWriter) {
	text, policy := page()
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	reply(w, "text/html; charset=utf-8", text)
}

// serveData serves the JSON of the page.
func (m *Metrics) serveData(w http.ResponseWriter) {
	text, _ := json.Marshal(m.pageData()) // none of its types can fail
	reply(w, "application/json", text)
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
