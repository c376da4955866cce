//go:build integration

package pagetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/control/controlhttp"
)

// newPanel serves a panel to everybody, so that nothing but the browser's own
// headers tells a form of the page from one of another site.
func newPanel(t *testing.T) (*control.Panel, string) {
	panel := new(control.Panel)
	panel.Policy(backoff.Policy{Name: "search"})
	panel.Policy(backoff.Policy{Name: hostile})
	mux := http.NewServeMux()
	mux.Handle("/debug/control", controlhttp.Handler(panel, func(*http.Request) (string, error) { return "ada", nil }))
	mux.HandleFunc("/favicon.ico", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return panel, server.URL + "/debug/control"
}

func (b *browser) run(t *testing.T, script string) {
	t.Helper()
	_, err := chromedp.Run(b, chromedp.Evaluate[bool](script+"; true"))
	require.NoError(t, err)
}

// arrive waits until a condition holds in a page that takes the place of this
// one.
func (b *browser) arrive(t *testing.T, condition string) {
	t.Helper()
	require.Eventually(t, func() bool {
		holds, err := chromedp.Run(b, chromedp.Evaluate[bool](condition))
		return err == nil && holds
	}, patient, 50*time.Millisecond, "never saw %s", condition)
}

func TestTheFormsOfThePageSetAndClearAnOverride(t *testing.T) {
	panel, url := newPanel(t)
	b := open(t)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate(url)))
	b.see(t, `document.body.textContent.includes("Nothing is overridden")`)
	b.run(t, `form = document.forms[0]; form.name.value = "search"; form.to.value = "off"; form.why.value = "drill"; form.requestSubmit()`)
	b.arrive(t, `document.querySelector("section h2")?.textContent === "retries of search: off"`)
	require.Equal(t, "ada", panel.Overrides()[0].Who)
	require.True(t, ask[bool](t, b, `location.pathname === "/debug/control"`))
	b.run(t, `form = document.forms[0]; form.why.value = "over"; form.requestSubmit()`)
	b.arrive(t, `document.body.textContent.includes("Nothing is overridden")`)
	require.Empty(t, panel.Overrides())
	require.False(t, ask[bool](t, b, `"stolen" in window || document.querySelector("img") !== null`))
	b.requireQuiet(t, url)
}

// The page of another site posts the form by itself, in each of the encodings
// that a form can have.
func TestAPageOfAnotherSiteCannotSetAnOverride(t *testing.T) {
	panel, url := newPanel(t)
	b := open(t)
	for _, encoding := range []string{"application/x-www-form-urlencoded", "text/plain", "multipart/form-data"} {
		evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<form method=post enctype=%q action=%q><input name=what value=retries><input name=name value="*"><input name=to value=off><input name=why value=evil></form><script>document.forms[0].submit()</script>`, encoding, url)
		}))
		defer evil.Close()
		for _, from := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
			require.NoError(t, chromedp.Do(b, chromedp.Navigate(from)))
			b.arrive(t, `document.body?.textContent.includes("refused: the request comes from another site")`)
			require.Empty(t, panel.Overrides(), "%s from %s", encoding, from)
		}
	}
}
