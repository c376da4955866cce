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
	// aside draws to the right of the data. nil leaves the room empty.
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
	if p.aside != nil {
		p.aside(data, draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: data.Max.X, Y: body.Min.Y},
			Max: vg.Point{X: c.Max.X, Y: c.Max.Y - p.top()},
		}})
	}
}

// margins returns the distances of the data of p from the left and the right
// edge of a canvas.
func (p *panel) margins(c draw.Canvas) (left, right vg.Length) {
	data := p.plot.DataCanvas(c)
	return data.Min.X - c.Min.X, c.Max.X - data.Max.X
}

// grid places panels in columns, row by row, with their data aligned. Each
// panel has room to the right of its data.
func grid(panels []*panel, columns int, room vg.Length) block {
	rows := (len(panels) + columns - 1) / columns
	heights := make([]vg.Length, rows)
	var total vg.Length
	for i, p := range panels {
		heights[i/columns] = max(heights[i/columns], p.totalHeight())
	}
	for _, h := range heights {
		total += h + gap
	}
	return block{total, func(c draw.Canvas) {
		at, wide := c.Max.Y, (inner-gap*vg.Length(columns-1))/vg.Length(columns)
		cell := func(i int) draw.Canvas {
			x := c.Min.X + vg.Length(i%columns)*(wide+gap)
			return draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
				Min: vg.Point{X: x, Y: at - panels[i].totalHeight()}, Max: vg.Point{X: x + wide, Y: at},
			}}
		}
		left, right := widest(panels, cell)
		for i, p := range panels {
			l, r := p.margins(cell(i))
			p.draw(cell(i), left-l, right-r, room)
			if i%columns == columns-1 {
				at -= heights[i/columns] + gap
			}
		}
	}}
}

// widest returns the largest margins of the panels.
func widest(panels []*panel, cell func(int) draw.Canvas) (left, right vg.Length) {
	for i, p := range panels {
		l, r := p.margins(cell(i))
		left, right = max(left, l), max(right, r)
	}
	return left, right
}

// pair places two panels side by side, with room for labels only after the
// first.
func pair(left, right *panel, room vg.Length) block {
	return block{left.totalHeight() + gap, func(c draw.Canvas) {
		wide := (inner - room - gap) / 2
		left.draw(draw.Crop(c, 0, -wide-gap, gap, 0), 0, 0, room)
		right.draw(draw.Crop(c, wide+room+gap, 0, gap, 0), 0, 0, 0)
	}}
}
