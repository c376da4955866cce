package chart

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A panel is one plot with a heading above and room for labels to its right.
type panel struct {
	heading string
	plot    *plot.Plot
	height  vg.Length
	// aside draws to the right of the data.
	aside func(data, room draw.Canvas)
	// above draws between the heading and the data. nil takes no room.
	above func(data draw.Canvas)
}

const (
	headLine  vg.Length = 15
	aboveLine vg.Length = 11
	gap       vg.Length = 12
)

// totalHeight returns the height of p including the name of its x axis.
func (p *panel) totalHeight() vg.Length {
	if p.plot.X.Label.Text == "" {
		return p.height
	}
	return p.height + 13
}

func (p *panel) top() vg.Length {
	if p.above != nil {
		return headLine + aboveLine
	}
	return headLine
}

func (p *panel) draw(c draw.Canvas, left, right, room vg.Length) {
	body := draw.Crop(c, left, -right-room, 0, -p.top())
	data := p.plot.DataCanvas(body)
	headText.write(c, vg.Point{X: c.Min.X, Y: c.Max.Y - 9}, draw.XLeft, p.heading)
	if p.above != nil {
		p.above(data)
	}
	p.plot.Draw(body)
	p.aside(data, draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: data.Max.X, Y: body.Min.Y},
		Max: vg.Point{X: c.Max.X, Y: c.Max.Y - p.top()},
	}})
}

// margins returns the distances of the data of p from the left and the right
// edge of a canvas.
func (p *panel) margins(c draw.Canvas) (left, right vg.Length) {
	data := p.plot.DataCanvas(c)
	return data.Min.X - c.Min.X, c.Max.X - data.Max.X
}

// height returns the height of panels below each other.
func height(panels []*panel) (total vg.Length) {
	for _, p := range panels {
		total += p.totalHeight() + gap
	}
	return total
}

// stack draws panels below each other, with their data aligned. Each panel has
// room to the right of its data.
func stack(c draw.Canvas, panels []*panel, room vg.Length) {
	var left, right vg.Length
	for _, p := range panels {
		l, r := p.margins(c)
		left, right = max(left, l), max(right, r)
	}
	for _, p := range panels {
		bottom := c.Max.Y - p.totalHeight()
		place := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: c.Min.X, Y: bottom}, Max: c.Max,
		}}
		l, r := p.margins(place)
		p.draw(place, left-l, right-r, room)
		c.Max.Y = bottom - gap
	}
}
