//go:build integration

package pagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffmetrics/page"
)

// A door is a server whose handler changes while a page is open.
type door struct{ handler atomic.Pointer[http.Handler] }

func newDoor(t *testing.T, first http.Handler) (*door, string) {
	d := new(door)
	d.lead(first)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*d.handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	return d, server.URL + "/"
}

func (d *door) lead(to http.Handler) { d.handler.Store(&to) }

// counted returns a page with some calls of each name, and its Metrics.
func counted(t *testing.T, names ...string) (http.Handler, *backoffmetrics.Metrics) {
	m := &backoffmetrics.Metrics{MaxNames: -1}
	h := page.Handler(m)
	for _, name := range names {
		for range 20 {
			m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: name, Attempt: 1})
		}
	}
	return h, m
}

// as returns a page whose process has another number.
func as(t *testing.T, pid int, names ...string) http.Handler {
	h, _ := counted(t, names...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/data" {
			h.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		h.ServeHTTP(recorded, r)
		var data map[string]any
		_ = json.Unmarshal(recorded.Body.Bytes(), &data)
		data["process"].(map[string]any)["pid"] = pid
		_ = json.NewEncoder(w).Encode(data)
	})
}

func TestANewProcessIsNotTakenForTheFormerOne(t *testing.T) {
	t.Parallel()
	d, url := newDoor(t, as(t, 1, "old", "both"))
	b := open(t)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(url)))
	b.see(t, `document.querySelectorAll("article").length === 2`)
	require.True(t, ask[bool](t, b, `document.getElementById("change").hidden`))
	d.lead(as(t, 2, "both"))
	b.see(t, `document.querySelectorAll("article").length === 1 && document.querySelector(".name").textContent === "both"`)
	b.see(t, `/another process responds.*process 2 on .*Before it was process 1 on/.test(document.getElementById("change").textContent)`)
	d.lead(as(t, 1))
	b.see(t, `document.getElementById("change").textContent.startsWith("Several processes respond in turn")`)
	b.see(t, `document.getElementById("empty").offsetParent !== null && document.querySelector("article") === null`)
	b.requireQuiet(t, url)
}

// The page says what is wrong, and that what it shows is old: in the headline
// too, which is all that some look at.
func TestThePageSaysWhyItHasNoNumbers(t *testing.T) {
	t.Parallel()
	well, _ := counted(t, "a")
	d, url := newDoor(t, well)
	b := open(t)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(url)))
	for _, c := range []struct {
		why    string
		answer http.HandlerFunc
	}{
		{"the response is 403 Forbidden", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }},
		{"the response redirects to another address", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://login.example", http.StatusFound)
		}},
		{"the response does not fit this page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<title>log in</title>") }},
		{"the response does not fit this page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }},
		{"the process does not respond within 5 s", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"the process cannot be reached", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		b.see(t, `document.getElementById("headline").textContent === "Nothing to do."`)
		d.lead(c.answer)
		b.see(t, `/^No numbers since [\d:]+ .*: `+c.why+`.*All below is of that time.$/.test(document.getElementById("headline").textContent)`)
		require.True(t, ask[bool](t, b, `document.title.startsWith("● ") && document.getElementById("status").getAttribute("role") === "alert"`))
		d.lead(well)
	}
	b.see(t, `document.getElementById("status").textContent.startsWith("Live") && document.title === "backoff: Nothing to do."`)
}

// An operation may have the name of an element of the page, and an address may
// have anything.
func TestNoNameMeetsAnElementOfThePage(t *testing.T) {
	names := []string{"process", "operation", "empty", "status", "a", "a-name", "op-a", "name-of-op-a", "change", "a b"}
	h, _ := counted(t, names...)
	_, url := newDoor(t, h)
	b := open(t)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(url+"#%")))
	b.see(t, fmt.Sprintf(`document.querySelectorAll("article").length === %d`, len(names)))
	require.NoError(t, chromedp.Do(b, chromedp.Sleep(2500*time.Millisecond))) // one more poll
	require.True(t, ask[bool](t, b, `(ids => new Set(ids).size === ids.length)([...document.querySelectorAll("[id]")].map(e => e.id))`))
	require.Equal(t, len(names), ask[int](t, b, `document.querySelectorAll("article").length`))
	b.see(t, `document.getElementById("status").textContent.startsWith("Live")`)
	b.requireQuiet(t, url)
}

// Such characters turn the text after them around, or hide.
func TestNamesDoNotTurnTheTextAround(t *testing.T) {
	h, _ := counted(t, "pay\u202e\u2066gro.live", "in\u200bvisible", "two\nlines\x00", "\xff", strings.Repeat("long", 1<<18))
	_, url := newDoor(t, h)
	b := open(t)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(url)))
	b.see(t, `document.querySelectorAll("article").length === 5`)
	require.False(t, ask[bool](t, b, `/\p{Cf}/u.test(document.documentElement.textContent)`))
	require.True(t, ask[bool](t, b, `document.getElementById("operations").textContent.includes("pay\ufffd\ufffdgro.live")`))
	require.True(t, ask[bool](t, b, `document.getElementById("operations").textContent.includes("beyond MaxNames")`), "the long name")
	require.Less(t, ask[int](t, b, `document.documentElement.textContent.length`), 50_000)
	b.requireQuiet(t, url)
}

// A page of many operations costs what is in sight.
func TestAPageOfManyOperationsIsQuick(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("operation-%04d", i))
	}
	h, m := counted(t, names...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, url := newDoor(t, h)
	b := open(t)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(url)))
	b.see(t, `document.querySelectorAll("article").length === 1000`)
	for i := range 4 { // so that the charts have columns
		for _, name := range names {
			m.Observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: name, Attempt: i + 1, Class: backoff.ClassRetryable, Err: errDown})
		}
		require.NoError(t, chromedp.Do(b, chromedp.Sleep(3*time.Second)))
	}
	b.see(t, `document.querySelectorAll("svg.load rect").length > 0`)
	require.Less(t, ask[int](t, b, `document.querySelectorAll("svg.load rect").length`), 1000)
	require.Equal(t, "", ask[string](t, b, `[...document.querySelectorAll('[data-figure="calls"]')].at(-1).textContent`))
	b.run(t, `document.querySelector("article:last-of-type").scrollIntoView()`)
	b.see(t, `[...document.querySelectorAll('[data-figure="calls"]')].at(-1).textContent.startsWith("20")`)
	b.see(t, `document.querySelector("article:last-of-type .recent").textContent.includes("errors.errorString")`)
	b.requireQuiet(t, url)
}
