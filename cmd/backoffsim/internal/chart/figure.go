package chart

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The width of 640 points is 853 pixels in a browser, the width of a README.
const (
	width  vg.Length = 640
	margin vg.Length = 14
	inner            = width - 2*margin
)

// A figure is a picture before it is drawn: a heading, panels below each other,
// and a caption.
type figure struct {
	frame  Frame
	panels []*panel
	room   vg.Length // to the right of the data of each panel
	// policies are explained in the caption.
	policies []Policy
	// spread describes the bands around the values.
	spread string
	// also are lines of the caption after the policies.
	also []string
}

const (
	titleLine   vg.Length = 19
	bodyLine    vg.Length = 13
	captionLine vg.Length = 10.5
	headGap     vg.Length = 6
)

func (f *figure) conditions() []string {
	if f.frame.Conditions == "" {
		return nil
	}
	return bodyText.wrap(f.frame.Conditions, inner, 0)
}

func (f *figure) height() vg.Length {
	h := 2*margin + titleLine*vg.Length(len(f.titles())) + bodyLine*vg.Length(len(f.conditions())) + headGap
	return h + height(f.panels) + captionLine*vg.Length(len(f.caption()))
}

func (f *figure) titles() []string { return titleText.wrap(f.frame.Title, inner, 0) }

// paint draws the whole figure on a canvas of its size.
func (f *figure) paint(c draw.Canvas) {
	c.SetColor(paper.light)
	c.Fill(c.Rectangle.Path())
	at := vg.Point{X: margin, Y: c.Max.Y - margin}
	for _, s := range f.titles() {
		titleText.write(c, at.Add(vg.Point{Y: -12}), draw.XLeft, s)
		at.Y -= titleLine
	}
	for _, s := range f.conditions() {
		bodyText.write(c, at.Add(vg.Point{Y: -8}), draw.XLeft, s)
		at.Y -= bodyLine
	}
	at.Y -= headGap
	stack(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: margin}, Max: vg.Point{X: width - margin, Y: at.Y},
	}}, f.panels, f.room)
	at.Y -= height(f.panels)
	for _, l := range f.caption() {
		at.Y -= captionLine
		nameText.write(c, at, draw.XLeft, l.name)
		captionText.write(c, at.Add(vg.Point{X: l.indent}), draw.XLeft, l.text)
	}
}

// A captionRow is one line of the caption: a name in bold, and text after it.
type captionRow struct {
	name   string
	indent vg.Length
	text   string
}

func (f *figure) caption() []captionRow {
	var rows []captionRow
	for _, p := range f.policies {
		if p.Parameters != "" {
			rows = append(rows, captionOf(p.Name, p.Parameters)...)
		}
	}
	for _, s := range slices.Concat(f.also, f.frame.Notes) {
		rows = append(rows, captionOf("", s)...)
	}
	if s := f.origin(); s != "" {
		rows = append(rows, captionOf("", s)...)
	}
	return rows
}

// captionOf breaks a text into rows of the caption.
func captionOf(name, text string) []captionRow {
	var indent vg.Length
	if name = nameText.clip(name, inner/2); name != "" {
		indent = nameText.width(name) + 6
	}
	var rows []captionRow
	for i, s := range captionText.wrap(text, inner, indent) {
		if i > 0 {
			name, indent = "", 0
		}
		rows = append(rows, captionRow{name, indent, s})
	}
	return rows
}

// origin says how the numbers were made: seeds and version.
func (f *figure) origin() string {
	var parts []string
	switch n := f.frame.Seeds; {
	case n == 1:
		parts = append(parts, fmt.Sprintf("One run, seed %d.", f.frame.Seed))
	case n > 1:
		parts = append(parts, fmt.Sprintf("Mean of %d runs, seeds from %d%s.", n, f.frame.Seed, f.spread))
	}
	if f.frame.Version != "" {
		parts = append(parts, "backoffsim "+f.frame.Version)
	}
	return strings.Join(parts, " ")
}
