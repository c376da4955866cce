package chart

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// layOut places the panels below each other.
func (d Herd) layOut() *figure {
	var panels []*panel
	var empty []string
	top := d.Capacity * 1.2
	for i, p := range d.Panels {
		top = max(top, slices.Max(p.Arrivals))
		if p.Peak > 0 {
			panels = append(panels, d.panel(i))
		} else {
			empty = append(empty, p.Name)
		}
	}
	for i, p := range panels {
		d.axis(&p.plot.Y, top)
		if i < len(panels)-1 {
			hideNumbers(&p.plot.X)
		}
	}
	if len(panels) > 0 {
		last := panels[len(panels)-1]
		last.plot.X.Label.Text, last.height = "seconds", last.height+11
	}
	return &figure{
		frame:    d.named("Arrivals per " + seconds(d.step()) + " when a herd comes back"),
		policies: policiesOf(d.Panels), also: d.legend(d.steep(top), empty),
		panels: panels, room: 130,
	}
}

func (d Herd) step() float64 { return d.Seconds[1] - d.Seconds[0] }

// axis makes the axis linear, or a square root if the capacity would be too
// small to see on a linear axis.
func (d Herd) axis(a *plot.Axis, top float64) {
	linear(a, 0, top*1.03, 2)
	if d.steep(top) {
		a.Scale = root{}
		step := roundStep(top / 12)
		ticks := []plot.Tick{{Label: "0"}, {Value: step, Label: number(step)}}
		for v := roundStep(top / 3); v <= top*1.03; v += roundStep(top / 3) {
			ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
		}
		a.Tick.Marker = plot.ConstantTicks(ticks)
	}
}

// steep reports whether the axis is a square root.
func (d Herd) steep(top float64) bool { return top > 8*d.Capacity }

// root is a square-root scale: 100 is ten times as high as 1.
type root struct{}

// Normalize implements plot.Normalizer.
func (root) Normalize(_, hi, v float64) float64 { return math.Sqrt(max(0, v) / hi) }

// hideNumbers removes the numbers of an axis and leaves the ticks.
func hideNumbers(a *plot.Axis) {
	ticks := a.Tick.Marker.Ticks(a.Min, a.Max)
	for i := range ticks {
		ticks[i].Label = ""
	}
	a.Tick.Marker = plot.ConstantTicks(ticks)
}

// legend explains the lines, and names those that have no panel because nothing
// arrives.
func (d Herd) legend(steep bool, empty []string) []string {
	s := "The line across is the server's capacity, " + number(d.Capacity) + " per " + seconds(d.step())
	if d.To > d.From {
		s += "; in the shaded time it is down"
	}
	s += "."
	if steep {
		s += " The y axis has a square-root scale, so that the capacity can be seen beside the peaks."
	}
	if len(empty) > 0 {
		s += " No panel, because nothing arrives: " + strings.Join(empty, ", ") + "."
	}
	return []string{s}
}

func (d Herd) panel(i int) *panel {
	p := ruled(newPlot(""))
	linear(&p.X, d.Seconds[0], d.Seconds[len(d.Seconds)-1]+d.step(), 8)
	if d.To > d.From {
		p.Add(span{d.From, d.To})
	}
	p.Add(d.bins(i), level{y: d.Capacity})
	name := headText.clip(d.Panels[i].Name, inner/2)
	return &panel{
		heading: name, plot: p, height: 86,
		aside: func(data, room draw.Canvas) { d.figures(i, p, data, room) },
	}
}

// figures writes the peak, the drain and the capacity beside a panel. The
// capacity is at the height of its line.
func (d Herd) figures(i int, p *plot.Plot, data, room draw.Canvas) {
	drained := "never drained"
	if !math.IsInf(d.Panels[i].Drain, 1) {
		drained = "drained in " + seconds(d.Panels[i].Drain)
	}
	line := on(p, data)(p.X.Min, d.Capacity).Y
	top := room.Max.Y
	x := room.Min.X + 5
	y := spread([]vg.Length{top - 7, top - 19, line}, []vg.Length{12, 12, 12}, data.Min.Y-6, top)
	labelText.write(room, vg.Point{X: x, Y: y[0] - 3}, draw.XLeft, "peak "+number(d.Panels[i].Peak))
	bodyText.write(room, vg.Point{X: x, Y: y[1] - 3}, draw.XLeft, drained)
	noteText.write(room, vg.Point{X: x, Y: y[2] - 3}, draw.XLeft, "capacity "+number(d.Capacity))
}

// bins draws the arrivals of a panel as a filled outline.
func (d Herd) bins(panel int) plotted {
	return func(c draw.Canvas, p *plot.Plot) {
		at, x := on(p, c), d.Seconds
		outline := []vg.Point{at(x[0], 0)}
		for i, v := range d.Panels[panel].Arrivals {
			outline = append(outline, at(x[i], v), at(x[i]+d.step(), v))
		}
		outline = append(outline, at(x[len(x)-1]+d.step(), 0))
		fill(c, outline, faint(hue(panel), .45))
		c.StrokeLines(draw.LineStyle{Color: hue(panel), Width: .9}, outline)
	}
}
