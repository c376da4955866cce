package chart

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A shade is one colour in both schemes. Pictures are drawn in the light
// colours, and the style sheet of an SVG replaces them in a dark scheme.
type shade struct{ light, dark color.NRGBA }

func rgb(hex uint32) color.NRGBA {
	return color.NRGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 0xff}
}

var (
	paper   = shade{rgb(0xFFFFFF), rgb(0x0D1117)}
	ink     = shade{rgb(0x1F2328), rgb(0xE6EDF3)}
	muted   = shade{rgb(0x57606A), rgb(0x9DA7B3)}
	rule    = shade{rgb(0xDDE1E6), rgb(0x30363D)}
	trigger = shade{rgb(0xECE3CF), rgb(0x3B3423)}
)

// series are the colours of the lines. They were chosen among pairs of a light
// and a dark colour: the smallest distance of two colours in Oklab is as large
// as possible, also as people without red or without green cones see them
// (Machado et al. 2009), and the contrast with the background is at least 3.
var series = [...]shade{
	{rgb(0x24292F), rgb(0xDCE3EA)},
	{rgb(0xE06A00), rgb(0xE69F00)},
	{rgb(0x3A86D4), rgb(0x79C0FF)},
	{rgb(0x009E73), rgb(0x7EE787)},
	{rgb(0xAA4499), rgb(0xF472B6)},
	{rgb(0x7A4A00), rgb(0xB9770E)},
	{rgb(0x332288), rgb(0x8A63D2)},
	{rgb(0x882255), rgb(0xCC6677)},
}

// dashes distinguish lines without colours. There is one for each line that a
// chart may have.
var dashes = [MaxLines][]vg.Length{
	nil,
	{7, 3},
	{2, 2},
	{9, 3, 2, 3},
	{4, 3},
	{12, 4},
	{5, 2, 1.5, 2, 1.5, 2},
	{1.5, 3.5},
	{14, 3, 4, 3},
	{3, 1.5, 3, 5},
	{9, 2, 1.5, 2, 1.5, 2, 1.5, 2},
	{6, 6},
}

// hue returns the colour of line i.
func hue(i int) color.NRGBA { return series[i%len(series)].light }

// stroke returns the style of line i.
func stroke(i int) draw.LineStyle {
	return draw.LineStyle{Color: hue(i), Width: 1.7, Dashes: dashes[i]}
}

// faint returns c with an opacity from 0 to 1.
func faint(c color.NRGBA, opacity float64) color.NRGBA {
	c.A = uint8(opacity*255 + .5)
	return c
}
