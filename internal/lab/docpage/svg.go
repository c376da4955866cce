package docpage

import (
	"fmt"
	"html"
	"strings"
)

// An SVG is a picture, as text.
type SVG struct{ strings.Builder }

// Line writes a line of the text.
func (s *SVG) Line(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// Text writes words into the picture, with their beginning at a point.
func (s *SVG) Text(x, y int, class, words string) {
	s.Line(`<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, html.EscapeString(words))
}

// Document returns the picture as a document of its own: with a title, with what
// it shows for those who cannot see it, and with a style, in which .paper is
// what it is drawn on, and .title how the title is written.
func (s *SVG) Document(width, height int, title, about, style string) string {
	var d SVG
	d.Line(`<?xml version="1.0" encoding="UTF-8"?>`)
	d.Line(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`, width, height)
	d.Line("<title>%s</title>", html.EscapeString(title))
	d.Line("<desc>%s</desc>", html.EscapeString(about))
	d.WriteString(style)
	d.Line(`<rect class="paper" width="%d" height="%d"/>`, width, height)
	d.Text(8, 20, "title", title)
	return d.String() + s.String() + "</svg>\n"
}
