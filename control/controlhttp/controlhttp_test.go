package controlhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/control/controlhttp"
)

// board is a panel behind its handler.
type board struct {
	control.Panel
	http.Handler
	search *control.Handle
}

func newBoard() *board {
	b := new(board)
	b.search = b.Policy(backoff.Policy{Name: "search"})
	b.Handler = controlhttp.Handler(&b.Panel, func(r *http.Request) (string, error) {
		who, password, _ := r.BasicAuth()
		if password != "secret" {
			return "", errors.New("the password of " + who + " is not secret")
		}
		return who, nil
	})
	return b
}

// off is a form that switches the retries of search off.
func off() url.Values {
	return url.Values{"what": {"retries"}, "name": {"search"}, "to": {"off"}, "why": {"drill"}}
}

// post returns a request of a person who is authorized.
func post(form url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://ops.example.com/debug/control", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	r.SetBasicAuth("ada", "secret")
	return r
}

func get(accept string) *http.Request {
	r := post(nil)
	r.Method = http.MethodGet
	r.Header.Set("Accept", accept)
	return r
}

func (b *board) answer(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

func TestAFormSetsAndClearsAnOverride(t *testing.T) {
	b := newBoard()
	w := b.answer(post(off()))
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Equal(t, "?", w.Header().Get("Location"))
	o := b.Overrides()[0]
	require.Equal(t, "ada", o.Who, "whom authorize names, and nobody else")
	require.Equal(t, o.Since.Add(time.Hour), o.Until)
	require.Equal(t, 1, b.search.Policy().MaxAttempts)

	form := off()
	form.Set("for", "30m")
	form.Set("to", "off\r\n") // as a textarea sends it
	form.Set("do", "set")
	r := post(form)
	r.Header.Set("Accept", "application/json")
	w = b.answer(r)
	require.Equal(t, http.StatusOK, w.Code)
	var said struct {
		Overrides []control.Override
		Targets   []control.Target
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &said))
	require.Len(t, said.Overrides, 1)
	require.Equal(t, control.Off, said.Overrides[0].To)
	require.Equal(t, said.Overrides[0].Since.Add(30*time.Minute), said.Overrides[0].Until)
	require.Equal(t, []control.Target{{What: control.Retries, Name: "search"}, {What: control.Spec, Name: "search"}}, said.Targets)

	form = url.Values{"do": {"clear"}, "what": {"retries"}, "name": {"search"}, "why": {"over"}}
	require.Equal(t, http.StatusSeeOther, b.answer(post(form)).Code)
	require.Empty(t, b.Overrides())
	w = b.answer(post(form))
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Equal(t, "backoff: control: name has no override to clear: \"retries of search\"\n", w.Body.String())
}

func TestARequestFromAnotherSiteChangesNothing(t *testing.T) {
	for name, header := range map[string]http.Header{
		"ours: the page itself":       {"Sec-Fetch-Site": {"same-origin"}, "Origin": {"https://ops.example.com"}},
		"ours: an old browser":        {"Origin": {"https://ops.example.com"}},
		"ours: no browser":            {},
		"another site":                {"Sec-Fetch-Site": {"cross-site"}},
		"another host of the site":    {"Sec-Fetch-Site": {"same-site"}},
		"an old browser":              {"Origin": {"https://evil.example.com"}},
		"a page without an origin":    {"Origin": {"null"}},
		"another port":                {"Origin": {"https://ops.example.com:8443"}},
		"the fetch metadata say so":   {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://ops.example.com"}},
		"a method that is overridden": {"Sec-Fetch-Site": {"cross-site"}, "X-Http-Method-Override": {"GET"}},
	} {
		b := newBoard()
		r := post(off())
		for key, values := range header {
			r.Header[key] = values
		}
		want, overrides := http.StatusForbidden, 0
		if strings.HasPrefix(name, "ours: ") {
			want, overrides = http.StatusSeeOther, 1
		}
		require.Equal(t, want, b.answer(r).Code, name)
		require.Len(t, b.Overrides(), overrides, name)
	}
}

func TestWhoeverIsNotAuthorizedSeesAndChangesNothing(t *testing.T) {
	b := newBoard()
	for _, r := range []*http.Request{post(off()), get("text/html"), get("application/json")} {
		r.SetBasicAuth("eve", "guess")
		w := b.answer(r)
		require.Equal(t, http.StatusForbidden, w.Code)
		require.Equal(t, "not allowed\n", w.Body.String(), "and does not learn why")
	}
	r := post(off())
	r.SetBasicAuth("", "secret")
	require.Equal(t, http.StatusForbidden, b.answer(r).Code, "a name is required")
	require.Empty(t, b.Overrides())
}

func TestAHandlerWithoutAuthorizePanics(t *testing.T) {
	require.PanicsWithValue(t, "backoff: controlhttp: Handler without authorize", func() { controlhttp.Handler(new(control.Panel), nil) })
}

func TestNothingIsChangedByGETOrByOtherMethods(t *testing.T) {
	b := newBoard()
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, "post"} {
		r := post(off())
		r.Method, r.URL.RawQuery = method, off().Encode()
		w := b.answer(r)
		if method != http.MethodGet && method != http.MethodHead {
			require.Equal(t, http.StatusMethodNotAllowed, w.Code)
			require.Equal(t, "GET, HEAD, POST", w.Header().Get("Allow"))
		}
		require.Empty(t, b.Overrides(), method)
	}
}

func TestAFormThatIsNotAsItShouldBeChangesNothing(t *testing.T) {
	with := func(key string, values ...string) url.Values {
		form := off()
		form[key] = values
		return form
	}
	for want, form := range map[string]url.Values{
		`field "nmae" is not known, want some of do, what, name, key, to, for, why`:                            with("nmae", "search"),
		`field "who" is not known, want some of do, what, name, key, to, for, why`:                             with("who", "eve"),
		`field "` + strings.Repeat("x", 64) + `" is not known, want some of do, what, name, key, to, for, why`: with(strings.Repeat("x", 100), ""),
		"field name is there twice":                                            with("name", "search", "*"),
		`for is "30", want a duration such as 30m`:                             with("for", "30"),
		`do is "undo", want set or clear`:                                      with("do", "undo"),
		"backoff: control: why is empty, want a reason":                        with("why"),
		`backoff: control: why is "a\r\nSet-Cookie: b", want one line of text`: with("why", "a\r\nSet-Cookie: b"),
		`backoff: control: name is "", want one of search; what is not registered with the panel cannot be overridden`: with("name", ""),
		"backoff: control: for is -1h0m0s, want at most 24h0m0s (Panel.MaxFor)":                                        with("for", "-1h"),
	} {
		b := newBoard()
		w := b.answer(post(form))
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Equal(t, want+"\n", w.Body.String())
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
		require.Empty(t, b.Overrides())
	}
	b := newBoard()
	zero := with("for", "0s")
	require.Equal(t, http.StatusBadRequest, b.answer(post(zero)).Code, "no time at all is not the default")
	for _, kind := range []string{"", "text/plain", "application/json", "multipart/form-data; boundary=x"} {
		r := post(off())
		r.Header.Set("Content-Type", kind)
		require.Equal(t, http.StatusUnsupportedMediaType, b.answer(r).Code, kind)
	}
	w := b.answer(post(with("to", strings.Repeat("x", 300<<10))))
	require.Equal(t, "the form cannot be read, or is longer than 262144 bytes\n", w.Body.String())
	r := post(off())
	r.URL.RawQuery = "name=*"
	require.Equal(t, http.StatusSeeOther, b.answer(r).Code)
	require.Equal(t, "search", b.Overrides()[0].Name, "what the URL says does not count")
}

func TestThePageShowsHostileNamesAsText(t *testing.T) {
	const hostile = `"><script>alert(1)</script>`
	b := newBoard()
	b.Policy(backoff.Policy{Name: hostile})
	require.NoError(t, b.Set(context.Background(), control.Override{Target: control.Target{What: control.Retries, Name: hostile}, To: control.Off, Who: hostile, Why: hostile}))
	require.NoError(t, b.Set(context.Background(), control.Override{Target: control.Target{What: control.Spec, Name: "search"}, To: `{"$schema": "</pre><script>"}`, Who: "ada", Why: "x"}))
	w := b.answer(get("text/html"))
	require.NotContains(t, w.Body.String(), "<script")
	require.Contains(t, w.Body.String(), "&lt;script&gt;")
	require.Contains(t, w.Body.String(), `name="name" value="&#34;&gt;&lt;`, "an attribute ends where the page ends it")
	w = b.answer(get("application/json"))
	require.NotContains(t, w.Body.String(), "<script")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
}

func TestThePageSaysWhatIsOverriddenAndWhatCannotBe(t *testing.T) {
	b := newBoard()
	b.MaxFor = -1
	page := b.answer(get("text/html,application/json")).Body.String()
	require.Contains(t, page, "Nothing is overridden: the settings of the program hold.")
	require.Contains(t, page, "A policy without a handle cannot, and is not listed here.")
	require.Contains(t, page, "It holds in this process only")
	require.Contains(t, page, "An override for a name takes precedence over one for all")
	require.Contains(t, page, "<li>retries of search</li>")
	require.Equal(t, 1, strings.Count(page, "<option>search</option>"), "each name once")
	require.NoError(t, b.Set(t.Context(), control.Override{Target: control.Target{What: control.Retries, Name: control.All}, To: control.Off, Who: "ada", Why: "drill", For: -1}))
	require.NoError(t, b.Set(t.Context(), control.Override{Target: control.Target{What: control.Retries, Name: "search"}, To: control.On, Who: "bob", Why: "needed"}))
	page = b.answer(get("text/html")).Body.String()
	require.Contains(t, page, "<h2>retries of all: off</h2>")
	require.Contains(t, page, "It has no end.")
	require.Contains(t, page, "<h2>retries of search: on</h2>")
	require.Regexp(t, `By bob since .* UTC: needed.\nIt ends at .* UTC, in 1h0m0s.`, page)
}

func TestAnAnswerAllowsNeitherScriptsNorFramesNorCaches(t *testing.T) {
	b := newBoard()
	cross := post(off())
	cross.Header.Set("Sec-Fetch-Site", "cross-site")
	for _, r := range []*http.Request{get("text/html"), get("application/json"), post(off()), post(nil), cross} {
		h := b.answer(r).Header()
		require.Equal(t, "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'", h.Get("Content-Security-Policy"))
		require.Equal(t, "no-store", h.Get("Cache-Control"))
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"))
		require.Empty(t, h.Get("Access-Control-Allow-Origin"))
	}
}

// Like curl, which accepts anything.
func TestAClientThatIsNoBrowserGetsWhatHoldsNow(t *testing.T) {
	b := newBoard()
	for _, accept := range []string{"", "*/*", "application/json"} {
		for _, r := range []*http.Request{post(off()), get("")} {
			r.Header.Set("Accept", accept)
			w := b.answer(r)
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Contains(t, w.Body.String(), "\n      \"to\": \"off\",\n      \"who\": \"ada\",\n")
		}
	}
}

func TestTheHandlerServesAnyPathThatItIsMountedAt(t *testing.T) {
	b := newBoard()
	mux := http.NewServeMux()
	mux.Handle("/exact", b)
	mux.Handle("/tree/", b)
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, path := range []string{"/exact", "/tree/", "/tree/deep/er", "/tree/%2e%2e%2fexact"} {
		form := off()
		form.Set("why", path)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		r.Header = post(nil).Header
		resp, err := server.Client().Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		require.Equal(t, http.MethodGet, resp.Request.Method, "the browser shows the page after a change")
		require.Equal(t, path, b.Overrides()[0].Why)
	}
	for why, request := range map[string]string{
		"HTTP/1.0 has no host that an origin could be": "POST /exact HTTP/1.0\r\nOrigin: https://evil.example",
		"a name that is rebound":                       "POST /exact HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nConnection: close",
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte(request + "\r\nAuthorization: " + post(nil).Header.Get("Authorization") + "\r\n\r\n"))
		require.NoError(t, err)
		said, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(said), "403 Forbidden", why)
	}
}

func TestTheJSONOfAnEmptyPanelHasEmptyLists(t *testing.T) {
	var empty control.Panel
	h := controlhttp.Handler(&empty, func(*http.Request) (string, error) { return "ada", nil })
	b := &board{Handler: h}
	w := b.answer(get("application/json"))
	require.JSONEq(t, `{"overrides": [], "targets": []}`, w.Body.String())
}

func FuzzForm(f *testing.F) {
	f.Add(off().Encode(), "text/html")
	f.Add("do=clear&what=retries&name=search&why=over", "")
	f.Add("what=spec&name=search&to=%7B%22maxAttempts%22%3A+2%7D&why=x&for=1h", "application/json")
	f.Add("what=breakers&name=*&to=forced+open&why=x&for=-1s", "*/*")
	f.Add("what=%zz&name=a;b", "text/html,")
	f.Fuzz(func(t *testing.T, body, accept string) {
		b := newBoard()
		r := post(nil)
		r.Body = io.NopCloser(strings.NewReader(body))
		r.Header.Set("Accept", accept)
		w := b.answer(r)
		changed := w.Code == http.StatusSeeOther || w.Code == http.StatusOK
		require.True(t, changed || w.Code == http.StatusBadRequest, w.Code)
		require.Equal(t, changed, len(b.Overrides()) == 1, "what is refused changes nothing")
		for _, o := range b.Overrides() {
			require.Equal(t, "ada", o.Who)
			require.NotEmpty(t, o.Why)
			require.False(t, o.Until.IsZero(), "each has an end")
		}
		if w.Code == http.StatusBadRequest {
			require.Equal(t, 1, strings.Count(w.Body.String(), "\n"), "one line: %q", w.Body)
			require.Less(t, w.Body.Len(), 1000)
		}
		require.NotContains(t, b.answer(get("text/html")).Body.String(), "<script")
	})
}
