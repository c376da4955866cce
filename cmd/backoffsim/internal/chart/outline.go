package chart

import (
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/vg"
)

// writtenText matches a text as the plotting library writes it.
var writtenText = regexp.MustCompile(`<text x="([^"]*)" y="-?([^"]*)" transform="scale\(1, -1\)"\s+` +
	`style="[^"]*font-weight:(\w+)[^"]*font-size:([0-9.]+)px;(fill:#[0-9A-F]{6})">([^<]*)</text>`)

// outlined replaces the texts of a drawing by their outlines in Liberation
// Sans, so that they are as wide as they were measured whatever fonts a reader
// has. Each text keeps its words in a title. A text with a letter that the font
// does not have stays a text.
func outlined(drawing string) string {
	shapes := map[string]string{}
	drawing = writtenText.ReplaceAllStringFunc(drawing, func(element string) string {
		m := writtenText.FindStringSubmatch(element)
		size, _ := strconv.ParseFloat(m[4], 64)
		l := lettering{size: vg.Length(size), bold: m[3] == "bold"}
		letters, ok := l.outline(html.UnescapeString(m[6]), shapes)
		if !ok {
			return element
		}
		return fmt.Sprintf(`<g transform="translate(%s,%s) scale(%.4g)" style=%q><title>%s</title>%s</g>`,
			m[1], m[2], size/float64(l.face().Face.UnitsPerEm()), m[5], m[6], letters)
	})
	var defs strings.Builder
	for _, id := range slices.Sorted(maps.Keys(shapes)) {
		fmt.Fprintf(&defs, "<path id=%q d=%q/>\n", id, shapes[id])
	}
	return "<defs>\n" + defs.String() + "</defs>\n" + drawing
}

// outline returns the letters of s, each a reference to its shape, which it
// adds to shapes. It reports false if the font does not have them all.
func (l lettering) outline(s string, shapes map[string]string) (letters string, ok bool) {
	var b strings.Builder
	var buf sfnt.Buffer
	face := l.face().Face
	weight := "r"
	if l.bold {
		weight = "b"
	}
	em := fixed.Int26_6(face.UnitsPerEm()) // so that all lengths are in units of the font
	x, before := fixed.Int26_6(0), sfnt.GlyphIndex(0)
	for _, r := range s {
		glyph, _ := face.GlyphIndex(&buf, r)
		if glyph == 0 {
			return "", false
		}
		if kern, err := face.Kern(&buf, before, glyph, em, 0); err == nil {
			x += kern
		}
		segments, _ := face.LoadGlyph(&buf, glyph, em, nil) // the font is part of the program
		if len(segments) > 0 {                              // a space has none
			id := weight + strconv.Itoa(int(glyph))
			shapes[id] = pathOf(segments)
			fmt.Fprintf(&b, `<use href="#%s" x="%d"/>`, id, int(x))
		}
		advance, _ := face.GlyphAdvance(&buf, glyph, em, 0)
		x, before = x+advance, glyph
	}
	return b.String(), true
}

// pathOf returns the path of a letter. Its y axis points up, as that of a
// drawing does.
func pathOf(segments sfnt.Segments) string {
	var b strings.Builder
	for i, s := range segments {
		op, n := 'M', 1
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			if i > 0 {
				b.WriteByte('Z')
			}
		case sfnt.SegmentOpLineTo:
			op = 'L'
		case sfnt.SegmentOpQuadTo:
			op, n = 'Q', 2
		case sfnt.SegmentOpCubeTo:
			op, n = 'C', 3
		}
		b.WriteRune(op)
		for i, p := range s.Args[:n] {
			if i > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprintf(&b, "%d %d", int(p.X), -int(p.Y))
		}
	}
	return b.String() + "Z"
}
