// Package controlhttp serves a [control.Panel] over HTTP: a page that shows
// what is overridden and by whom, with forms to change it, and the same as JSON.
//
//	http.Handle("/debug/control", controlhttp.Handler(&panel, authorize))
//
//	curl -u ada -d what=retries -d name=search -d to=off \
//		-d why="shard 7 is overloaded" https://ops.example.com/debug/control
//
// The panel is that of one process: ask every process of a service, and not a
// load balancer in front of them.
//
// This is a package of its own because net/http would double the size of a
// program that has none.
package controlhttp

import (
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/internal/sameorigin"
)

// Handler serves a panel at the path that it is mounted at. A browser gets
// the page, and a client that does not accept text/html gets JSON: the
// overrides in force, and the targets that can be overridden. GET changes
// nothing. A POST of a form sets an override, or clears it with do=clear. The
// other fields are what, name (which is * for all), key, to, for (such as 30m)
// and why: see [control.Override]. A browser is sent back to the page after it,
// with 303; others get 200 and the JSON. A form that is wrong gets 400 and one
// line that says which field, and changes nothing.
//
// authorize says who sends a request, or returns an error, which refuses it
// with 403 and is not shown. It is asked about every request, also about those
// that only read. The name that it returns is the Who of an override. It must
// go by a credential. It must not go by the address of the client, because a
// web page can send requests from the browser of a colleague. Handler panics
// without it.
//
// A POST from another site is refused (see [http.CrossOriginProtection]), and
// so is one whose form is not the one above: a misspelled field changes
// nothing. On a loopback address every request is refused whose Host is a name
// other than localhost, since a web page can rebind its own name to that address;
// a proxy in front must set the Host to localhost.
func Handler(panel *control.Panel, authorize func(*http.Request) (who string, err error)) http.Handler {
	if authorize == nil {
		panic("backoff: controlhttp: Handler without authorize")
	}
	return &handler{panel: panel, authorize: authorize}
}

// handler serves a panel.
type handler struct {
	panel      *control.Panel
	authorize  func(*http.Request) (who string, err error)
	crossSites http.CrossOriginProtection
}

// maxBody is enough for the longest spec, as a form.
const maxBody = 256 << 10

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !sameorigin.Admits(w, r) {
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "same-origin") // no-referrer would take the Origin from forms
	header.Set("Vary", "Accept")
	if err := h.crossSites.Check(r); err != nil {
		http.Error(w, "refused: the request comes from another site", http.StatusForbidden)
		return
	}
	who, err := h.authorize(r)
	if err != nil || who == "" {
		http.Error(w, "not allowed", http.StatusForbidden)
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		h.show(w, r)
	case http.MethodPost:
		h.change(w, r, who)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "only GET, HEAD and POST", http.StatusMethodNotAllowed)
	}
}

// change does what a form says.
func (h *handler) change(w http.ResponseWriter, r *http.Request, who string) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		http.Error(w, "want a form: application/x-www-form-urlencoded", http.StatusUnsupportedMediaType)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read, or is longer than "+strconv.Itoa(maxBody)+" bytes", http.StatusBadRequest)
		return
	}
	if problem := h.apply(r, r.PostForm, who); problem != "" {
		http.Error(w, problem, http.StatusBadRequest)
		return
	}
	if !wantsPage(r) {
		h.show(w, r)
		return
	}
	w.Header().Set("Location", "?") // the same path: which one, the handler does not know
	w.WriteHeader(http.StatusSeeOther)
}

// apply does what a form says, or returns why not.
func (h *handler) apply(r *http.Request, form url.Values, who string) (problem string) {
	for _, field := range slices.Sorted(maps.Keys(form)) {
		switch {
		case !slices.Contains(fields, field):
			return "field " + quoted(field) + " is not known, want some of " + strings.Join(fields, ", ")
		case len(form[field]) > 1:
			return "field " + field + " is there twice"
		}
	}
	target := control.Target{What: form.Get("what"), Name: form.Get("name"), Key: form.Get("key")}
	var err error
	switch do := form.Get("do"); do {
	case "clear":
		err = h.panel.Clear(r.Context(), target, who, form.Get("why"))
	case "", "set":
		o := control.Override{Target: target, To: strings.TrimSpace(form.Get("to")), Who: who, Why: form.Get("why")}
		if given := form.Get("for"); given != "" {
			if o.For, err = time.ParseDuration(given); err != nil || o.For == 0 {
				return "for is " + quoted(given) + ", want a duration such as 30m"
			}
		}
		err = h.panel.Set(r.Context(), o)
	default:
		return "do is " + quoted(do) + ", want set or clear"
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// quoted returns the beginning of what a client sent.
func quoted(text string) string { return strconv.Quote(text[:min(len(text), 64)]) }

// fields are those of the form.
var fields = []string{"do", "what", "name", "key", "to", "for", "why"}

// wantsPage reports whether a request is that of a browser.
func wantsPage(r *http.Request) bool {
	return strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/html")
}

// contents are those of the page.
type contents struct {
	Overrides []control.Override `json:"overrides"`
	Targets   []control.Target   `json:"targets"`
}

// show responds with what is overridden, and what can be.
func (h *handler) show(w http.ResponseWriter, r *http.Request) {
	c := contents{Overrides: h.panel.Overrides(), Targets: h.panel.Targets()}
	if wantsPage(r) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, c.page())
		return
	}
	c.Overrides, c.Targets = append([]control.Override{}, c.Overrides...), append([]control.Target{}, c.Targets...) // never null
	w.Header().Set("Content-Type", "application/json")
	lines := json.NewEncoder(w)
	lines.SetIndent("", "  ")
	_ = lines.Encode(c)
}
