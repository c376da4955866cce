package chart

import (
	"image/color"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A lettering is the size, weight and colour of text in Liberation Sans. An SVG
// has the measured widths, so that readers without the font see the same layout.
type lettering struct {
	size  vg.Length
	bold  bool
	color color.NRGBA
}

var (
	titleText   = lettering{14, true, ink.light}
	headText    = lettering{9.5, true, ink.light}
	bodyText    = lettering{9, false, ink.light}
	labelText   = lettering{9, true, ink.light}
	noteText    = lettering{8.5, false, muted.light}
	captionText = lettering{8, false, muted.light}
	nameText    = lettering{8, true, muted.light}
)

func (l lettering) font() font.Font {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: l.size}
	if l.bold {
		f.Weight = xfont.WeightBold
	}
	return f
}

func (l lettering) face() font.Face { return font.DefaultCache.Lookup(l.font(), l.size) }

func (l lettering) width(s string) vg.Length {
	f := l.face()
	return f.Width(s)
}

// style returns l as a style for the axes of a plot.
func (l lettering) style(x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color: l.color, Font: l.font(), XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler,
	}
}

// write writes s on the baseline at pt. pt is the left end of s, the middle if
// align is -0.5, and the right end if align is -1.
func (l lettering) write(c draw.Canvas, pt vg.Point, align text.XAlignment, s string) {
	if s == "" {
		return
	}
	c.SetColor(l.color)
	c.FillString(l.face(), pt.Add(vg.Point{X: vg.Length(align) * l.width(s)}), s)
}

// wrap breaks s between words so that no line is wider than width. The first
// line is shorter by indent. A word that is too long for a line is broken.
func (l lettering) wrap(s string, width, indent vg.Length) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		next := strings.TrimPrefix(line+" "+word, " ")
		if line != "" && l.width(next) > width-indent {
			lines = append(lines, line)
			next, indent = word, 0
		}
		for fits := l.fit(next, width-indent); fits < len(next); fits = l.fit(next, width) {
			lines = append(lines, next[:fits])
			next, indent = next[fits:], 0
		}
		line = next
	}
	return append(lines, line)
}

// clip shortens s to width with an ellipsis.
func (l lettering) clip(s string, width vg.Length) string {
	if l.fit(s, width) == len(s) {
		return s
	}
	return strings.TrimRight(s[:l.fit(s, width-l.width("…"))], " ") + "…"
}

// fit returns how many bytes of s are not wider than width. It counts whole
// letters, and at least one.
func (l lettering) fit(s string, width vg.Length) int {
	var used vg.Length
	face := l.face()
	for i, r := range s {
		if used += face.Width(string(r)); used > width && i > 0 {
			return i
		}
	}
	return len(s)
}
