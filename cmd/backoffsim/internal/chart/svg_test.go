package chart

import (
	"bytes"
	"encoding/xml"
	"html"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

// charts has a chart of each kind, and one with as many lines as possible.
func charts() map[string]Chart {
	crowd := slices.Clone(shapes)
	for _, name := range []string{"nine, a policy with a name that is far too long for a label", "ten", "eleven", "twelve"} {
		crowd = append(crowd, shape{name, "as the others", 60, .9})
	}
	return map[string]Chart{
		"dip": dip(shapes), "failure": failure(1, 64, 1.3, .01), "herd": herd(), "crowd": dip(crowd),
		"one line": dip(shapes[:1]), "linear": failure(4),
	}
}

func svgOf(t *testing.T, c Chart) string {
	var b bytes.Buffer
	require.NoError(t, SVG(&b, c))
	return b.String()
}

func each(t *testing.T, check func(t *testing.T, c Chart)) {
	all := charts()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { check(t, all[name]) })
	}
}

func TestTheSameDataGiveTheSameBytes(t *testing.T) {
	each(t, func(t *testing.T, c Chart) { require.Equal(t, svgOf(t, c), svgOf(t, c)) })
}

func TestAnSVGIsWellFormed(t *testing.T) {
	each(t, func(t *testing.T, c Chart) {
		d := xml.NewDecoder(strings.NewReader(svgOf(t, c)))
		for {
			_, err := d.Token()
			if err == io.EOF {
				return
			}
			require.NoError(t, err)
		}
	})
}

func TestEveryPolicyIsNamedInThePictureAndExplainedInTheCaption(t *testing.T) {
	s := svgOf(t, dip(shapes))
	for _, p := range shapes {
		require.Equal(t, 3, strings.Count(s, ">"+p.name+"<"), "in both panels and the caption")
		require.Contains(t, s, ">"+p.parameters+"<")
	}
}

func TestAPictureSaysWhatItShows(t *testing.T) {
	whole, one, all := dip(shapes), dip(shapes), herd()
	one.Seeds, one.Seed, one.Title = 1, 7, "Mine & <yours>"
	all.Panels[0].Drain = never
	for text, c := range map[string]struct {
		in    Chart
		times int
	}{
		">never recovers<":        {whole, 2},
		">never drained<":         {all, 1},
		">dip to 30 %<":           {whole, 2},
		"fill:#ECE3CF":            {whole, 3}, // the shading
		">capacity 50<":           {all, 5},
		">1000<":                  {all, 5}, // the top of the axis of each panel
		">Calls per request<":     {failure(4), 1},
		"per request, log scale<": {failure(1, 64), 1},
		"Mean of 20 runs, seeds from 1; the areas span 5 % to 95 % of the runs. backoffsim v1.0.0<": {whole, 1},
		">One run, seed 7. backoffsim v1.0.0<":                                                      {one, 1},
		`role="img">`:                                                                               {whole, 1},
		"<title>Goodput after the dip</title>":                                                      {whole, 1},
		"<title>Mine &amp; &lt;yours&gt;</title>":                                                   {one, 1},
		"<desc>Open loop at 80 % load, ":                                                            {whole, 1},
		">capacity<":                                                                                {whole, 1},
	} {
		require.Equal(t, c.times, strings.Count(svgOf(t, c.in), text), text)
	}
}

func TestLinesDifferInDashes(t *testing.T) {
	used := regexp.MustCompile(`stroke-width:1\.7(?:;stroke-dasharray:([0-9.,]+))?`)
	seen := map[string]int{}
	for _, m := range used.FindAllStringSubmatch(svgOf(t, dip(shapes)), -1) {
		seen[m[1]]++
	}
	require.Len(t, seen, len(shapes))
	for pattern, n := range seen {
		require.Equal(t, 4, n, "%q: a line and its sample in each of two panels", pattern)
	}
}

func TestEveryColourHasADarkForm(t *testing.T) {
	each(t, func(t *testing.T, c Chart) {
		head, drawing, _ := strings.Cut(svgOf(t, c), "</style>")
		for _, u := range colours.FindAllString(drawing, -1) {
			require.Contains(t, head, `[style*="`+u+`"]`)
		}
	})
}

// A written is a text of a picture with its bounding box.
type written struct {
	text string
	box  vg.Rectangle
}

// A textElement is as wide as it was measured, with any font of a reader.
var textElement = regexp.MustCompile(`<text textLength="([0-9.]+)" lengthAdjust="spacingAndGlyphs" ` +
	`x="([-0-9.e+]+)" y="-([-0-9.e+]+)"[^>]*font-size:([0-9.]+)px[^>]*>([^<]*)<`)

func texts(t *testing.T, svg string) []written {
	var all []written
	for _, m := range textElement.FindAllStringSubmatch(svg, -1) {
		w, x, y, size := parse(t, m[1]), parse(t, m[2]), parse(t, m[3]), parse(t, m[4])
		// Letters reach from a quarter of their size below the line, which few
		// do, to three quarters above.
		all = append(all, written{html.UnescapeString(m[5]), vg.Rectangle{
			Min: vg.Point{X: x, Y: y - .1*size}, Max: vg.Point{X: x + w, Y: y + .72*size},
		}})
	}
	require.Len(t, all, strings.Count(svg, "<text"))
	return all
}

func parse(t *testing.T, s string) vg.Length {
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return vg.Length(v)
}

func TestNoTextIsCutAndNoTwoOverlap(t *testing.T) {
	each(t, func(t *testing.T, c Chart) {
		all, height := texts(t, svgOf(t, c)), c.layOut().height()
		for _, a := range all {
			require.GreaterOrEqual(t, a.box.Min.X, vg.Length(0), a.text)
			require.LessOrEqual(t, a.box.Max.X, width, a.text)
			require.GreaterOrEqual(t, a.box.Min.Y, vg.Length(0), a.text)
			require.LessOrEqual(t, a.box.Max.Y, height, a.text)
		}
		requireApart(t, all)
	})
	for _, name := range []string{"dip", "failure", "herd", "ratelimit"} {
		text, err := os.ReadFile(filepath.Join("../../../../docs", name+".svg"))
		require.NoError(t, err)
		requireApart(t, texts(t, string(text)))
	}
}

// requireApart requires that no two texts overlap.
func requireApart(t *testing.T, all []written) {
	for i, a := range all {
		for _, b := range all[:i] {
			require.False(t, overlap(a.box, b.box), "%q and %q", a.text, b.text)
		}
	}
}

func overlap(a, b vg.Rectangle) bool {
	const touch = .3
	return a.Min.X < b.Max.X-touch && b.Min.X < a.Max.X-touch && a.Min.Y < b.Max.Y-touch && b.Min.Y < a.Max.Y-touch
}

func TestAHerdLeavesOutAPanelInWhichNothingArrives(t *testing.T) {
	d := herd()
	panels := func() int { return strings.Count(svgOf(t, d), ">capacity 50<") }
	all := panels()
	require.Len(t, d.Panels, all)
	for i := range d.Panels {
		d.Panels[i].Peak = 0
		require.Equal(t, all-1-i, panels())
	}
	require.Contains(t, d.layOut().also[0], "No panel, because nothing arrives: "+d.Panels[0].Name+", "+d.Panels[1].Name)
}

func TestAChartOfPoliciesThatCannotBeToldApartIsRefused(t *testing.T) {
	for want, change := range map[string]func(*Dip){
		"there are 0 policies, want 1 to 12":   func(d *Dip) { d.Lines = nil },
		"there are 16 policies, want 1 to 12":  func(d *Dip) { d.Lines = append(d.Lines, d.Lines...) },
		`policy "" has no name of its own`:     func(d *Dip) { d.Lines[2].Name = "" },
		`policy "none" has no name of its`:     func(d *Dip) { d.Lines[3].Name = "none" },
		"has a letter that XML does not have":  func(d *Dip) { d.Lines[0].Parameters = "a\tb" },
		`"\xff" has a letter that XML`:         func(d *Dip) { d.Title = "\xff" },
		`"\ufffe" has a letter that XML`:       func(d *Dip) { d.Notes = []string{"fine", "\ufffe"} },
		"has 1001 letters, want 1000 or fewer": func(d *Dip) { d.Conditions = strings.Repeat("é", 1001) },
	} {
		d := dip(shapes)
		change(&d)
		require.ErrorContains(t, SVG(io.Discard, d), want)
	}
}
