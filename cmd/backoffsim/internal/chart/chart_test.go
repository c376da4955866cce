package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html"
	"image/color"
	"io"
	"maps"
	"math"
	"math/rand/v2"
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
	for _, m := range used.FindAllStringSubmatch(svgOf(t, charts()["crowd"]), -1) {
		seen[m[1]]++
	}
	require.Len(t, seen, MaxLines)
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
		text, err := os.ReadFile(filepath.Join("../../../../docs/results", name+".svg"))
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

// The data are close to those of the models, so that the pictures are like
// those that users get.

var never = math.Inf(1)

func frame(conditions string) Frame {
	return Frame{Conditions: conditions, Seed: 1, Seeds: 20, Version: "v1.0.0"}
}

// A shape is a policy's load and recovery after a dip.
type shape struct {
	name, parameters string
	recovery         float64
	attempts         float64 // after the dip until the recovery, as multiples of capacity
}

var shapes = []shape{
	{"none", "no retries", 21.1, .8},
	{"naive", "3 retries at once", never, 3.2},
	{"full jitter", "3 retries, base 100 ms, factor 2, cap 10 s, full jitter", never, 3.19},
	{"budget 10 %", "full jitter; a retry for every ten requests, reserve 10 per process", 41.7, .88},
	{"success-funded", "full jitter; a retry for every ten successes, reserve 10 per process", 22.6, .8},
	{"500-5-1", "full jitter; quota 500 per process, retry 5, success 1", 31.6, .82},
	{"breaker 5 s", "full jitter; breaker that opens at 50 % failures of 20, for 5 s", 6, .4},
	{"default", "full jitter; success-funded budget and breaker", 7.2, .45},
}

func (s shape) policy() Policy { return Policy{Name: s.name, Parameters: s.parameters} }

func dip(shapes []shape) Dip {
	d := Dip{
		Frame: frame("Open loop at 80 % load, capacity 1000/s, 30 % of it for 10 s; attempt timeout 1 s, 20 processes."),
		From:  30, To: 40, Trigger: "dip to 30 %",
	}
	for t := range 240 {
		d.Seconds = append(d.Seconds, float64(t))
	}
	for i, s := range shapes {
		l, r := Line{Policy: s.policy(), Recovery: s.recovery}, rand.New(rand.NewPCG(1, uint64(i)))
		for _, t := range d.Seconds {
			good, sent := 100.0, .8
			if t >= 30 {
				good = 100 / (1 + math.Exp(-(t-38-s.recovery)*1.2))
				sent = s.attempts + (.8-s.attempts)*good/100
			}
			noise := r.NormFloat64()
			add(&l.First, max(0, good+noise*.6*math.Sqrt(good/100)), 2+good*(100-good)/150)
			add(&l.Second, sent*(1+noise*.008), sent*.05)
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

// add appends a mean with a range around it.
func add(b *Band, mean, distance float64) {
	b.Mean = append(b.Mean, mean)
	b.Low = append(b.Low, max(0, mean-distance))
	b.High = append(b.High, mean+distance)
}

// failure returns a chain of services in which each policy makes at most so many
// times the calls.
func failure(most ...float64) Failure {
	d := Failure{Frame: frame("User, three layers; every call of the last service fails independently.")}
	for n := range 11 {
		d.Probability = append(d.Probability, float64(n)/10)
	}
	for i, most := range most {
		l := Line{Policy: shapes[i].policy()}
		for _, p := range d.Probability {
			add(&l.First, math.Pow(most, p*p), .03)
			add(&l.Second, 100*(1-math.Pow(p, most)), 0)
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

func herd() Herd {
	d := Herd{Frame: frame("1000 clients fail together at 0; capacity 500/s."), Capacity: 50}
	for i := range 100 {
		d.Seconds = append(d.Seconds, float64(i)/10)
	}
	for n := range 5 {
		var arrivals []float64
		for i := range d.Seconds {
			arrivals = append(arrivals, 1000*math.Exp(-float64(i*n)/9)*float64((i+1)%2))
		}
		d.Panels = append(d.Panels, HerdPanel{
			Policy: Policy{Name: fmt.Sprintf("full jitter, base %d s", n)}, Peak: slices.Max(arrivals),
			Drain: 100 / float64(n+1), Arrivals: arrivals,
		})
	}
	return d
}

func TestALabelWithRoomStaysBesideItsLine(t *testing.T) {
	y := spread([]vg.Length{90, 50, 10}, []vg.Length{12, 12, 12}, 0, 100)
	require.Equal(t, []vg.Length{90, 50, 10}, y)
}

func TestLabelsOfLinesThatEndTogetherMoveApartEvenly(t *testing.T) {
	y := spread([]vg.Length{50, 50, 50}, []vg.Length{10, 10, 10}, 0, 100)
	require.Equal(t, []vg.Length{60, 50, 40}, y)
}

func TestLabelsNeverOverlapNorLeaveTheRoomNorSwap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(MaxLines)
		wanted, heights := make([]vg.Length, n), make([]vg.Length, n)
		at := vg.Length(300)
		for i := range wanted {
			if r.IntN(2) == 0 {
				at -= vg.Length(r.IntN(60))
			}
			wanted[i], heights[i] = max(0, at), vg.Length(12+10*r.IntN(2))
		}
		y := spread(wanted, heights, 0, 300)
		top := vg.Length(300)
		for i := range y {
			require.LessOrEqual(t, y[i]+heights[i]/2, top+1e-9, "%v %v %v", wanted, heights, y)
			top = y[i] - heights[i]/2
		}
		require.GreaterOrEqual(t, top, vg.Length(-1e-9), "%v %v %v", wanted, heights, y)
	}
}

func TestLabelsOfLinesThatEndTogetherKeepTheOrderOfTheLines(t *testing.T) {
	require.Equal(t, []int{0, 1, 3, 2}, labelOrder([]vg.Point{{Y: 100}, {Y: 101}, {Y: 2}, {Y: 99.5}}))
}

func TestColoursStandOutFromThePaperInBothSchemes(t *testing.T) {
	for _, s := range append(series[:], ink, muted) {
		want := 3.0
		if s == ink || s == muted {
			want = 4.5 // as WCAG 2.2 asks of text
		}
		require.Greater(t, contrast(s.light, paper.light), want, "%v", s)
		require.Greater(t, contrast(s.dark, paper.dark), want, "%v", s)
	}
}

// light is the intensity of a channel.
func light(v uint8) float64 {
	c := float64(v) / 255
	if c <= .04045 {
		return c / 12.92
	}
	return math.Pow((c+.055)/1.055, 2.4)
}

func luminance(c color.NRGBA) float64 {
	return .2126*light(c.R) + .7152*light(c.G) + .0722*light(c.B)
}

func contrast(a, b color.NRGBA) float64 {
	x, y := luminance(a)+.05, luminance(b)+.05
	return max(x, y) / min(x, y)
}

func TestNoWrappedLineIsTooWideAndNothingIsLost(t *testing.T) {
	for _, s := range []string{
		"a sentence of several words", strings.Repeat("unbroken", 20), "short " + strings.Repeat("x", 60) + " tail", "",
	} {
		lines := bodyText.wrap(s, 100, 30)
		for i, line := range lines {
			room := vg.Length(100)
			if i == 0 {
				room = 70
			}
			require.LessOrEqual(t, bodyText.width(line), room, line)
		}
		require.Equal(t, strings.ReplaceAll(s, " ", ""), strings.ReplaceAll(strings.Join(lines, ""), " ", ""))
	}
}

func TestALongNameEndsInAnEllipsis(t *testing.T) {
	require.Equal(t, "short", labelText.clip("short", 100))
	long := labelText.clip("policies/experimental/mine-with-a-long-name.json", 100)
	require.True(t, strings.HasSuffix(long, "…"), long)
	require.LessOrEqual(t, labelText.width(long), vg.Length(100))
	require.Greater(t, labelText.width(long), vg.Length(85))
}

func TestNumbersAreBrief(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 64: "64", 1.3310: "1.33", 21.1: "21.1", 91022: "91022", 123.4: "123", .0033: "0.0033", .0001: "0.0001",
		never: "never", 1e-9: "0",
	} {
		require.Equal(t, want, number(v), v)
	}
	require.Equal(t, "100 ms", seconds(.1))
	require.Equal(t, "1.5 s", seconds(1.5))
	require.Equal(t, "0 s", seconds(0))
}
