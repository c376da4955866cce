package chart

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// pair places two panels side by side, with room for labels only after the
// first.
func pair(left, right *panel, room vg.Length) block {
	return block{left.totalHeight() + gap, func(c draw.Canvas) {
		wide := (inner - room - gap) / 2
		left.draw(draw.Crop(c, 0, -wide-gap, gap, 0), 0, 0, room)
		right.draw(draw.Crop(c, wide+room+gap, 0, gap, 0), 0, 0, 0)
	}}
}
