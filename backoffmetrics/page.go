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

// page is one document, whose only style and script are known by their hashes: whatever
// else gets into it is not run.
var page = sync.OnceValues(func() (text []byte, policy string) {
	html := strings.NewReplacer("{{style}}", pageStyle, "{{script}}", pageScript).Replace(pageHTML)
	policy = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; style-src " + hashOf(pageStyle) + "; script-src " + hashOf(pageScript)
	return []byte(html), policy
})

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func servePage(w http.ResponseWriter) {
	text, policy := page()
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	reply(w, "text/html; charset=utf-8", text)
}

func (m *Metrics) serveData(w http.ResponseWriter) {
	text, _ := json.Marshal(m.whole()) // there is nothing in it that could fail
	reply(w, "application/json", text)
}

// addSlash sends those on who asked for the page by a path without its slash, relative to
// which the page would look for its data in vain. It reports whether there was none.
func addSlash(w http.ResponseWriter, r *http.Request) bool {
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	if r.URL.Path != "" || strings.HasSuffix(asked, "/") {
		return false
	}
	w.Header().Set("Location", "./"+path.Base(asked)+"/")
	w.WriteHeader(http.StatusTemporaryRedirect)
	return true
}
