package chart

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A curve is one line of a plot.
type curve struct {
	index int
	x     []float64
	Band
	// name and note are the text of the label.
	name, note string
}

// on returns a function that maps data to points of c. Values below the axis
// are drawn at its lower end.
func on(p *plot.Plot, c draw.Canvas) func(x, y float64) vg.Point {
	toX, toY := p.Transforms(&c)
	return func(x, y float64) vg.Point { return vg.Point{X: toX(x), Y: toY(max(y, p.Y.Min))} }
}

// points maps the values y of the curve to points of c.
func (k *curve) points(p *plot.Plot, c draw.Canvas, y []float64) []vg.Point {
	at := on(p, c)
	pts := make([]vg.Point, len(y))
	for i := range y {
		pts[i] = at(k.x[i], y[i])
	}
	return pts
}

// curves draws the bands first, and then the lines.
type curves []curve

// Plot implements plot.Plotter.
func (s curves) Plot(c draw.Canvas, p *plot.Plot) {
	for i := range s {
		s[i].drawBand(c, p)
	}
	for i := range s {
		c.StrokeLines(stroke(s[i].index), s[i].points(p, c, s[i].Mean))
	}
}

// drawBand draws the area between Low and High.
func (k *curve) drawBand(c draw.Canvas, p *plot.Plot) {
	if len(k.Low) == 0 {
		return
	}
	low, high := k.points(p, c, k.Low), k.points(p, c, k.High)
	slices.Reverse(high)
	fill(c, append(low, high...), faint(hue(k.index), .16))
}

// fill fills an outline.
func fill(c draw.Canvas, outline []vg.Point, color color.Color) {
	path := vg.Path{{Type: vg.MoveComp, Pos: outline[0]}}
	for _, pt := range outline[1:] {
		path.Line(pt)
	}
	path.Close()
	c.SetColor(color)
	c.Fill(path)
}

// level is a line across the plot at y, such as a capacity or a deadline, with
// its name at the left end.
type level struct {
	y    float64
	name string
}

// Plot implements plot.Plotter.
func (l level) Plot(c draw.Canvas, p *plot.Plot) {
	y := on(p, c)(p.X.Min, l.y).Y
	c.StrokeLine2(draw.LineStyle{Color: ink.light, Width: 1}, c.Min.X, y, c.Max.X, y)
	if l.name == "" {
		return
	}
	w := noteText.width(l.name)
	box := vg.Rectangle{Min: vg.Point{X: c.Min.X + 1, Y: y + 1.5}, Max: vg.Point{X: c.Min.X + w + 5, Y: y + 11}}
	c.SetColor(faint(paper.light, .8))
	c.Fill(box.Path())
	lettering{8.5, false, ink.light}.write(c, vg.Point{X: c.Min.X + 3, Y: y + 3.5}, draw.XLeft, l.name)
}

// span shades the time of a fault.
type span struct{ from, to float64 }

func (s span) rectangle(c draw.Canvas, p *plot.Plot) vg.Rectangle {
	at := on(p, c)
	from, to := max(s.from, p.X.Min), min(s.to, p.X.Max)
	return vg.Rectangle{
		Min: vg.Point{X: at(from, p.Y.Min).X, Y: c.Min.Y},
		Max: vg.Point{X: at(to, p.Y.Min).X, Y: c.Max.Y},
	}
}

// Plot implements plot.Plotter.
func (s span) Plot(c draw.Canvas, p *plot.Plot) {
	c.SetColor(trigger.light)
	c.Fill(s.rectangle(c, p).Path())
}

// name writes text above the middle of the shaded time, within the width of the
// plot.
func (s span) name(c draw.Canvas, p *plot.Plot, text string) {
	text = noteText.clip(text, c.Max.X-c.Min.X)
	r, half := s.rectangle(c, p), noteText.width(text)/2
	x := min(max((r.Min.X+r.Max.X)/2, c.Min.X+half), c.Max.X-half)
	noteText.write(c, vg.Point{X: x, Y: c.Max.Y + 3.5}, draw.XCenter, text)
}
