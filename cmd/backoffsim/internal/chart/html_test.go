package chart

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func htmlOf(t *testing.T, title string, charts ...Chart) string {
	var b bytes.Buffer
	require.NoError(t, HTML(&b, title, charts...))
	return b.String()
}

func TestAPageLoadsNothing(t *testing.T) {
	s := htmlOf(t, "All", dip(shapes), recoveryMap())
	require.NotRegexp(t, regexp.MustCompile(`(?i)<(script|link|img|iframe|object)\b|@import|\burl\(|\b(src|href)="?[^"#]`), s)
	for _, address := range regexp.MustCompile(`https?://[^"' <]*`).FindAllString(s, -1) {
		require.Contains(t, []string{"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, address)
	}
	require.Equal(t, 2, strings.Count(s, "<svg "))
	require.NotContains(t, s, "<?xml")
}

func TestAPageHasTheNumbersOfEveryChartInTables(t *testing.T) {
	s := htmlOf(t, "All", dip(shapes), failure(), layers(), delays())
	for _, want := range []string{
		"<caption>Seconds from the end of the trigger to recovery</caption>",
		`<th scope="row">naive</th><td>never</td>`,
		"<caption>Calls per request, by the probability that a call fails</caption>",
		`<th scope="row">naive</th><td>1</td><td>4</td><td>16</td><td>64</td>`,
		`<th scope="row">default</th><td>0.05 (0 to 0.1)</td>`,
		"<td>none</td>",
	} {
		require.Contains(t, s, want)
	}
	require.Equal(t, 8, strings.Count(s, "<table>"))
}

func TestATableSpansTheWholeAxis(t *testing.T) {
	require.Contains(t, htmlOf(t, "Dip", dip(shapes)), `<th scope="col">0</th><th scope="col">20</th>`)
	require.Contains(t, htmlOf(t, "Dip", dip(shapes)), `<th scope="col">220</th><th scope="col">239</th></tr>`)
	for places := 1; places < 300; places++ {
		at := sample(places, 13)
		require.LessOrEqual(t, len(at), 13)
		require.Equal(t, 0, at[0])
		require.Equal(t, places-1, at[len(at)-1])
		require.GreaterOrEqual(t, len(at), min(places, 7))
	}
}

func TestNamesAreText(t *testing.T) {
	d := dip(shapes[:2])
	d.Lines[0].Name = `<b onload="x">&`
	s := htmlOf(t, "<i>title</i>", d)
	require.NotContains(t, s, "<b ")
	require.NotContains(t, s, "<i>")
}

func TestAPageFollowsTheColourScheme(t *testing.T) {
	s := htmlOf(t, "All", dip(shapes))
	require.Contains(t, s, `<meta name="color-scheme" content="light dark">`)
	require.Contains(t, s, "@media (prefers-color-scheme: dark) { :root")
}

func TestAPageWithARefusedChartIsNotWritten(t *testing.T) {
	var b bytes.Buffer
	bad := dip(shapes)
	bad.Lines = nil
	require.ErrorContains(t, HTML(&b, "All", dip(shapes), bad), "Dip: Lines has 0 policies")
	require.ErrorContains(t, HTML(&b, "All"), "HTML: no chart to draw")
	require.ErrorContains(t, HTML(&b, "a\x00b", dip(shapes)), "HTML: title has a control character")
	require.ErrorContains(t, HTML(&b, "All", nil), "no chart to draw")
	require.Zero(t, b.Len())
}
