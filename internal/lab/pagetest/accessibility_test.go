//go:build integration

package pagetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// announced is what a screen reader finds, in the order of the page.
func announced(t *testing.T, b *browser) (found []string) {
	t.Helper()
	tree, err := chromedp.Call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(t, err)
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal([]byte(v.Value), &s)
		}
		return s
	}
	for _, n := range tree.Nodes {
		if !n.Ignored {
			found = append(found, text(n.Role)+": "+text(n.Name))
		}
	}
	return found
}

func TestAScreenReaderFindsEverything(t *testing.T) {
	s := newSite(t, "/")
	s.breaker.Force(backoff.ModeForcedOpen)
	b := open(t)
	b.visit(t, s.url)
	b.see(t, `document.querySelectorAll("svg.load rect.failed").length > 0`)
	found := announced(t, b)
	for _, want := range []string{
		"banner: ", "main: ", "contentinfo: ", // landmarks
		"region: Circuit breakers", "region: Retry budgets", "region: Operations",
		"heading: Circuit breakers", "heading: Retry budgets",
		"article: search GET search.example.com", "heading: search GET search.example.com", "link: search GET search.example.com",
		"meter: search: ", "image: Calls: at once ", "image: Calls per second in the last 5 min: at most ",
		"StaticText: The circuit is forced open for payments: ",
		"StaticText: Broken: ", "columnheader: p50", "rowheader: attempts of all callers", "term: ", "definition: ",
	} {
		require.True(t, contains(found, want), "%q is not in\n%s", want, strings.Join(found, "\n"))
	}
	for _, line := range found {
		switch role, name, _ := strings.Cut(line, ": "); role {
		case "image", "meter", "button", "link", "heading", "article", "region", "table":
			require.NotEmpty(t, strings.TrimSpace(name), "%s without a name", role)
		}
	}
}

func contains(found []string, want string) bool {
	for _, line := range found {
		if strings.HasPrefix(strings.Join(strings.Fields(line), " "), strings.TrimSpace(want)) {
			return true
		}
	}
	return false
}

// The numbers of the headline change every two seconds. What is read aloud does
// not.
func TestTheHeadlineIsReadAloudOnlyWhenItChanges(t *testing.T) {
	s := newSite(t, "/")
	b := open(t)
	b.visit(t, s.url)
	b.see(t, `document.getElementById("announcement").textContent.includes("is failing.")`)
	require.False(t, ask[bool](t, b, `document.getElementById("headline").hasAttribute("aria-live")`))
	require.NotContains(t, ask[string](t, b, `document.getElementById("announcement").textContent`), "%")
	s.breaker.Trip()
	b.see(t, `document.getElementById("announcement").textContent.includes("The circuit is open for payments.")`)
}

// From the headline the keyboard leads to the card, and the address of a card
// leads there too.
func TestTheHeadlineLeadsToTheCard(t *testing.T) {
	s := newSite(t, "/")
	b := open(t)
	b.visit(t, s.url)
	b.see(t, `document.querySelector("#headline a") !== null`)
	for range 2 { // the button comes first
		require.NoError(t, chromedp.Do(b, chromedp.KeyEvent("\t")))
	}
	require.True(t, ask[bool](t, b, `document.activeElement.parentNode.id === "headline"`))
	require.NotEqual(t, "none", ask[string](t, b, `getComputedStyle(document.activeElement).outlineStyle`), "the focus is not seen")
	require.NoError(t, chromedp.Do(b, chromedp.KeyEvent("\r")))
	b.see(t, `document.querySelector("article:target.bad") !== null`)

	id := ask[string](t, b, `document.querySelector("article:last-of-type").id`)
	require.NoError(t, chromedp.Do(b, chromedp.Navigate("about:blank")))
	b.dress(t, 390, "light")
	b.visit(t, s.url+"#"+id)
	b.see(t, `scrollY > 200`)
}
