package chart

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// SVG writes c as a picture that follows the reader's colour scheme. It refuses
// a chart whose policies cannot be told apart, and a text that does not fit
// into an XML document or a few lines of a picture.
func SVG(w io.Writer, c Chart) error {
	f := c.layOut()
	if err := f.check(); err != nil {
		return err
	}
	_, err := io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+f.svg())
	return err
}

// MaxLines is how many policies a reader can distinguish.
const MaxLines = 12

// maxLetters is how many letters a text may have.
const maxLetters = 1000

// check returns what is wrong with the policies and the texts.
func (f *figure) check() error {
	if n := len(f.policies); n == 0 || n > MaxLines {
		return fmt.Errorf("chart: there are %d policies, want 1 to %d", n, MaxLines)
	}
	texts := append([]string{f.frame.Title, f.frame.Conditions, f.frame.Version}, f.frame.Notes...)
	seen := map[string]bool{}
	for _, p := range f.policies {
		if p.Name == "" || seen[p.Name] {
			return fmt.Errorf("chart: policy %q has no name of its own", p.Name)
		}
		seen[p.Name] = true
		texts = append(texts, p.Name, p.Parameters)
	}
	for _, s := range texts {
		if n := utf8.RuneCountInString(s); n > maxLetters {
			return fmt.Errorf("chart: %q... has %d letters, want %d or fewer", s[:20], n, maxLetters)
		}
		if !utf8.ValidString(s) || strings.ContainsFunc(s, unprintable) {
			return fmt.Errorf("chart: %q has a letter that XML does not have", s)
		}
	}
	return nil
}

// unprintable reports whether an XML document cannot hold a letter, or a picture
// cannot show it.
func unprintable(r rune) bool { return unicode.IsControl(r) || r == '\uFFFE' || r == '\uFFFF' }

var (
	opening = regexp.MustCompile(`<svg [^>]*>`)
	colours = regexp.MustCompile(`(fill|stroke):#[0-9A-F]{6}`)
)

// svg returns the svg element. The plotting library draws it in light colours,
// and svg adds the title, the description and the style sheet.
func (f *figure) svg() string {
	canvas := vgsvg.New(width, f.height())
	f.paint(draw.New(canvas))
	var b bytes.Buffer
	canvas.WriteTo(&b) // into memory, which does not fail
	s := b.String()
	at := opening.FindStringIndex(s)
	head := strings.TrimSuffix(s[at[0]:at[1]], ">") + ` class="backoffsim" role="img">`
	drawing := writtenText.ReplaceAllStringFunc(s[at[1]:], fitted)
	return head + "\n" + f.describe() + styleSheet(drawing) + drawing
}

// writtenText matches the start of a text as the plotting library writes it,
// and the text.
var writtenText = regexp.MustCompile(
	`<text [^>]*font-weight:(\w+)[^>]*font-size:([0-9.]+)px[^>]*>([^<]*)`)

// fitted makes a text as wide as it was measured, whatever fonts a reader has.
func fitted(element string) string {
	m := writtenText.FindStringSubmatch(element)
	size, _ := strconv.ParseFloat(m[2], 64)
	w := lettering{size: vg.Length(size), bold: m[1] == "bold"}.width(html.UnescapeString(m[3]))
	return fmt.Sprintf(`<text textLength="%.5g" lengthAdjust="spacingAndGlyphs" %s`, float64(w),
		strings.TrimPrefix(element, "<text "))
}

// describe returns the title and the description for screen readers.
func (f *figure) describe() string {
	return fmt.Sprintf("<title>%s</title>\n<desc>%s</desc>\n",
		html.EscapeString(f.frame.Title), html.EscapeString(f.frame.Conditions))
}

// styleSheet returns a style sheet that replaces the colours of a drawing in a
// dark scheme, and names the fonts. It needs
// !important to override the attributes of the drawing. A viewer without style
// sheets shows the light picture.
func styleSheet(drawing string) string {
	used := colours.FindAllString(drawing, -1)
	slices.Sort(used)
	var b strings.Builder
	b.WriteString("<style>\n.backoffsim text{font-family:\"Liberation Sans\",Arimo,Arial,Helvetica,sans-serif!important}\n" +
		"@media (prefers-color-scheme:dark){\n")
	for _, u := range slices.Compact(used) {
		if dark, ok := darkOf(u); ok {
			property, _, _ := strings.Cut(u, ":")
			fmt.Fprintf(&b, ".backoffsim [style*=%q]{%s:%s!important}\n", u, property, dark)
		}
	}
	b.WriteString("}\n</style>\n")
	return b.String()
}

// darkOf returns the dark form of a colour. Rounding changes translucent
// colours a little when they are drawn.
func darkOf(used string) (string, bool) {
	var drawn color.NRGBA
	_, hex, _ := strings.Cut(used, "#")
	fmt.Sscanf(hex, "%02X%02X%02X", &drawn.R, &drawn.G, &drawn.B)
	for _, s := range append([]shade{paper, ink, muted, rule, trigger}, series[:]...) {
		if near(s.light.R, drawn.R) && near(s.light.G, drawn.G) && near(s.light.B, drawn.B) {
			return fmt.Sprintf("#%02X%02X%02X", s.dark.R, s.dark.G, s.dark.B), true
		}
	}
	return "", false
}

func near(a, b uint8) bool { return max(a, b)-min(a, b) <= 3 }
