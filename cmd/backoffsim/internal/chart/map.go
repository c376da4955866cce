package chart

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A tint is the colour of recoveries that take up to a number of seconds, with
// the colour of text on it. Each tint is darker than the one before, so that
// the order is visible in black and white. The tints are the same in both
// colour schemes.
type tint struct {
	upTo       float64
	fill, text color.NRGBA
}

var (
	onLight = rgb(0x101418)
	onDark  = rgb(0xF9F9F9)
	tints   = []tint{
		{1, rgb(0xEDF8B1), onLight},
		{3, rgb(0xC7E9B4), onLight},
		{10, rgb(0x8FD3BE), onLight},
		{30, rgb(0x4DB6C6), onLight},
		{100, rgb(0x2474AE), onDark},
		{math.MaxFloat64, rgb(0x253494), onDark},
		{math.Inf(1), rgb(0x15171A), onDark},
	}
	hatch = draw.LineStyle{Color: rgb(0x8B9096), Width: .8}
)

func tintOf(recovery float64) tint {
	i := slices.IndexFunc(tints, func(t tint) bool { return recovery <= t.upTo })
	return tints[i]
}

// layOut places the maps in at most three columns.
func (d Map) layOut() *figure {
	columns := min(len(d.Maps), 3)
	if len(d.Maps) == 4 {
		columns = 2
	}
	wide := (inner - gap*vg.Length(columns-1)) / vg.Length(columns)
	var panels []*panel
	for i, m := range d.Maps {
		p := newPlot("")
		if i >= len(d.Maps)-columns {
			p.X.Label.Text = "load, % of capacity"
		}
		nominal(&p.X, d.Load)
		nominal(&p.Y, d.Fault)
		p.Add(cells(m.Recovery))
		if d.Mark != nil {
			p.Add(d.mark())
		}
		panels = append(panels, &panel{
			heading: headText.clip(m.Name, wide), plot: p, height: d.height(),
			above: func(data draw.Canvas) {
				noteText.write(data, vg.Point{X: data.Min.X, Y: data.Max.Y + 3.5}, draw.XLeft, "fault, s")
			},
		})
	}
	return &figure{
		frame: d.named("How long the recovery takes"), policies: policiesOf(d.Maps),
		also: []string{"Numbers are seconds to recovery, 0 where there was less than half of one. " +
			"Each row and column stands for the value at its axis; the steps between them may differ."},
		blocks: []block{d.legend(), grid(panels, columns, 2)},
		words:  d.words(),
	}
}

func (d Map) height() vg.Length { return headLine + aboveLine + 25 + 15*vg.Length(len(d.Fault)) }

// nominal gives each value of an axis a cell of the same size.
func nominal(a *plot.Axis, values []float64) {
	a.Min, a.Max = 0, float64(len(values))
	ticks := make([]plot.Tick, len(values))
	every := (len(values) + 11) / 12
	for i, v := range values {
		ticks[i] = plot.Tick{Value: float64(i) + .5}
		if i%every == 0 {
			ticks[i].Label = number(v)
		}
	}
	a.Tick.Marker = plot.ConstantTicks(ticks)
}

// cells are recoveries in seconds, row by row.
type cells [][]float64

// Plot implements plot.Plotter.
func (s cells) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for y, row := range s {
		for x, v := range row {
			r := vg.Rectangle{
				Min: vg.Point{X: toX(float64(x)) + .3, Y: toY(float64(y)) + .3},
				Max: vg.Point{X: toX(float64(x)+1) - .3, Y: toY(float64(y)+1) - .3},
			}
			cell(draw.Canvas{Canvas: c.Canvas, Rectangle: r}, v)
		}
	}
	y, from, to := s.longest()
	left, right := toX(float64(from)), toX(float64(to))
	never := lettering{8.5, true, onDark}
	if w := never.width("never") + 4; right-left >= w {
		plate(c, vg.Point{X: (left + right) / 2, Y: toY(float64(y) + .5)}, w, never, "never")
	}
}

// cell draws one recovery: its colour, and the number if there is room.
func cell(c draw.Canvas, recovery float64) {
	swatch(c, recovery)
	if math.IsInf(recovery, 1) {
		return
	}
	text := lettering{7.5, false, tintOf(recovery).text}
	if s := number(math.Round(recovery)); text.width(s) < c.Max.X-c.Min.X-1 && c.Max.Y-c.Min.Y > 8 {
		text.write(c, c.Center().Sub(vg.Point{Y: 2.7}), draw.XCenter, s)
	}
}

// hatched draws slanted lines through a cell.
func hatched(c draw.Canvas) {
	w, h := c.Max.X-c.Min.X, c.Max.Y-c.Min.Y
	for x := -h + 2; x < w; x += 5 {
		from, to := max(x, 0), min(x+h, w)
		c.StrokeLine2(hatch, c.Min.X+from, c.Min.Y+from-x, c.Min.X+to, c.Min.Y+to-x)
	}
}

// plate writes text on a dark background of width w, centred at a point.
func plate(c draw.Canvas, at vg.Point, w vg.Length, l lettering, s string) {
	half := vg.Point{X: w / 2, Y: 5.5}
	c.SetColor(tints[len(tints)-1].fill)
	c.Fill(vg.Rectangle{Min: at.Sub(half), Max: at.Add(half)}.Path())
	l.write(c, at.Sub(vg.Point{Y: 3}), draw.XCenter, s)
}

// longest returns the longest run of cells that never recover. If several are
// equally long, it returns the one closest to the middle.
func (s cells) longest() (row, from, to int) {
	best := 0.0
	for y, cells := range s {
		start := 0
		for x := 0; x <= len(cells); x++ {
			if x < len(cells) && math.IsInf(cells[x], 1) {
				continue
			}
			off := math.Abs(float64(y)+.5-float64(len(s))/2) / float64(len(s)+1)
			if score := float64(x-start) - off; x > start && score > best {
				best, row, from, to = score, y, start, x
			}
			start = x + 1
		}
	}
	return row, from, to
}

// mark draws the user's mark.
func (d Map) mark() plotted {
	return func(c draw.Canvas, p *plot.Plot) {
		toX, toY := p.Transforms(&c)
		ring(c, vg.Point{X: toX(between(d.Load, d.Mark.Load)), Y: toY(between(d.Fault, d.Mark.Fault))}, 8)
	}
}

// between returns the position of v on a nominal axis.
func between(values []float64, v float64) float64 {
	for i := 1; i < len(values); i++ {
		if v <= values[i] {
			return float64(i) - .5 + (v-values[i-1])/(values[i]-values[i-1])
		}
	}
	return .5
}

// ring draws a dark circle with a light outline, so that it is visible on every
// tint.
func ring(c draw.Canvas, at vg.Point, radius vg.Length) {
	for _, style := range []draw.LineStyle{{Color: onDark, Width: 4}, {Color: onLight, Width: 1.8}} {
		c.SetLineStyle(style)
		var path vg.Path
		path.Move(at.Add(vg.Point{X: radius}))
		path.Arc(at, radius, 0, 2*math.Pi)
		path.Close()
		c.Stroke(path)
	}
}

// legend explains the colours.
func (d Map) legend() block {
	return block{26, func(c draw.Canvas) {
		x, y := c.Min.X, c.Max.Y-14
		for i, t := range tints {
			text := "up to " + seconds(t.upTo)
			v := t.upTo
			switch {
			case i == len(tints)-1:
				text = "never within " + seconds(d.Horizon)
			case i == len(tints)-2:
				text, v = "longer", 2*tints[i-1].upTo
			}
			box := vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + 16, Y: y + 11}}
			swatch(draw.Canvas{Canvas: c.Canvas, Rectangle: box}, v)
			c.SetLineStyle(draw.LineStyle{Color: muted.light, Width: .5})
			c.Stroke(box.Path())
			noteText.write(c, vg.Point{X: x + 20, Y: y + 2.5}, draw.XLeft, text)
			x += 20 + noteText.width(text) + 12
		}
		if d.Mark != nil {
			ring(c, vg.Point{X: x + 6, Y: y + 5.5}, 5)
			noteText.write(c, vg.Point{X: x + 16, Y: y + 2.5}, draw.XLeft, "you")
		}
	}}
}

// swatch fills c with the colour of a recovery.
func swatch(c draw.Canvas, recovery float64) {
	c.SetColor(tintOf(recovery).fill)
	c.Fill(c.Rectangle.Path())
	if math.IsInf(recovery, 1) {
		hatched(c)
	}
}

// words returns the first map as text.
func (d Map) words() string {
	var rows [][]string
	for i, fault := range d.Fault {
		row := []string{number(fault)}
		for _, v := range d.Maps[0].Recovery[i] {
			row = append(row, number(v))
		}
		rows = append(rows, row)
	}
	return inWords("Seconds to recovery: "+d.Maps[0].Name, rows)
}
