package backoffmetrics

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Handler serves three things, whatever path it is mounted at. The path itself,
// which must end in a slash, is a page for people. "metrics" below it is the
// text for Prometheus, in the format 0.0.4, or OpenMetrics 1.0.0 if the request
// asks for that. "data" below it is the JSON that the page is made of; its form
// may change.
//
//	http.Handle("/debug/backoff/", metrics.Handler())
//
// The page loads nothing from elsewhere. The handler does not authenticate: the
// names of operations are shown to everyone who may reach it.
func (m *Metrics) Handler() http.Handler { return http.HandlerFunc(m.serve) }

// serve is the handler.
func (m *Metrics) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] {
	case "":
		if !addSlash(w, r) {
			servePage(w)
		}
	case "data":
		m.serveData(w)
	case "metrics":
		m.serveText(w, r)
	default:
		http.Error(w, "not found: the page is at a path that ends in a slash, and metrics is below it", http.StatusNotFound)
	}
}

// serveText serves the text for Prometheus.
func (m *Metrics) serveText(w http.ResponseWriter, r *http.Request) {
	m.history.record(m)
	open := wantsOpenMetrics(r.Header.Values("Accept"))
	contentType := textType
	if open {
		contentType = openType
	}
	w.Header().Set("Vary", "Accept")
	reply(w, contentType, m.expose(open))
}

// reply writes a response.
func reply(w http.ResponseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body)
}

// wantsOpenMetrics reports whether an Accept header prefers OpenMetrics to
// plain text.
func wantsOpenMetrics(accept []string) bool {
	var open, text float64
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		switch version := params["version"]; {
		case kind == "application/openmetrics-text" && (version == "" || version == "1.0.0"):
			open = max(open, quality(params["q"]))
		case kind == "text/plain":
			text = max(text, quality(params["q"]))
		}
	}
	return open > 0 && open >= text
}

// quality returns the weight that an Accept header gives to a type.
func quality(q string) float64 {
	if q == "" {
		return 1
	}
	f, err := strconv.ParseFloat(q, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return 0
	}
	return f
}
