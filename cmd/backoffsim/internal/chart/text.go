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

// A lettering is a size, weight and colour of text, in Liberation Sans: its letters are
// as wide as those of Arial, so a reader without it sees the same layout.
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

// style is l for the axes of a plot.
func (l lettering) style(x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color: l.color, Font: l.font(), XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler,
	}
}

// write puts s on the baseline at pt, which is its left end, its middle with align
// -0.5, its right end with -1.
func (l lettering) write(c draw.Canvas, pt vg.Point, align text.XAlignment, s string) {
	if s == "" {
		return
	}
	c.SetColor(l.color)
	c.FillString(l.face(), pt.Add(vg.Point{X: vg.Length(align) * l.width(s)}), s)
}

// wrap breaks s between words so that no line is wider than width, the first one less
// by indent. A word that is too long for a line is broken.
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

// fit is how many bytes of s, whole letters and at least one, are not wider than width.
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
