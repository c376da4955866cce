package chart

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func (d Herd) check() error {
	c := &checker{chart: "Herd"}
	c.frame(d.Frame)
	c.axis("Seconds", d.Seconds, 2, -finite, finite)
	c.between(d.From, d.To)
	c.value("Capacity", d.Capacity, 0, finite)
	c.policies("Panels", d.policies())
	for i, p := range d.Panels {
		at := fmt.Sprintf("Panels[%d].", i)
		c.band(at+"Arrivals", p.Arrivals, len(d.Seconds), finite)
		c.value(at+"Peak", p.Peak, 0, finite)
		c.value(at+"Drain", p.Drain, 0, math.Inf(1))
	}
	return c.err
}

func (d Herd) policies() []Policy {
	return policiesOf(d.Panels, func(p HerdPanel) Policy { return p.Policy })
}

func (d Herd) draw() (*figure, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	var panels []*panel
	var lines []curve
	t := table{Caption: "Arrivals", Head: []string{"strategy", "peak per " + seconds(d.step()), "drained, s"}}
	for i, p := range d.Panels {
		lines = append(lines, d.curve(i))
		panels = append(panels, d.panel(i))
		t.Rows = append(t.Rows, []string{p.Name, number(p.Peak), number(p.Drain)})
	}
	top := highest(lines, d.Capacity*1.2)
	for _, p := range panels {
		linear(&p.plot.Y, 0, top*1.03, 2)
	}
	panels[len(panels)-1].plot.X.Label.Text = "seconds"
	return &figure{
		frame: d.named("Arrivals per " + seconds(d.step()) + " when a herd comes back"), policies: d.policies(),
		spread: bandText(lines), also: d.legend(),
		blocks: []block{grid(panels, 1, 130)},
		tables: []table{t, tableOf("Arrivals per "+seconds(d.step())+", from second", "strategy", d.Seconds, lines)},
	}, nil
}

func (d Herd) step() float64 { return d.Seconds[1] - d.Seconds[0] }

func (d Herd) legend() []string {
	s := "The line across is the server's capacity, " + number(d.Capacity) + " per " + seconds(d.step())
	if d.To > d.From {
		s += "; in the shaded time it is down"
	}
	return []string{s + "."}
}

// curve repeats the last bin, so that it has a width.
func (d Herd) curve(i int) curve {
	b := d.Panels[i].Arrivals
	return curve{index: i, x: d.Seconds, Band: b, name: d.Panels[i].Name}
}

func (d Herd) panel(i int) *panel {
	p := newPlot("")
	linear(&p.X, d.Seconds[0], d.Seconds[len(d.Seconds)-1]+d.step(), 8)
	if d.To > d.From {
		p.Add(span{d.From, d.To})
	}
	p.Add(steps{d.curve(i), d.step()}, level{y: d.Capacity})
	name := headText.clip(d.Panels[i].Name, inner/2)
	return &panel{heading: name, plot: p, height: 84, aside: func(_, room draw.Canvas) { d.figures(i, room) }}
}

// figures writes peak and drain of a panel beside it.
func (d Herd) figures(i int, room draw.Canvas) {
	at := vg.Point{X: room.Min.X + 12, Y: room.Max.Y - 14}
	labelText.write(room, at, draw.XLeft, "peak "+number(d.Panels[i].Peak))
	drained := "never drained"
	if !math.IsInf(d.Panels[i].Drain, 1) {
		drained = "drained in " + seconds(d.Panels[i].Drain)
	}
	at.Y -= 12
	bodyText.write(room, at, draw.XLeft, drained)
}

// steps draws bins as a filled outline.
type steps struct {
	curve
	step float64
}

func (s steps) outline(p *plot.Plot, c draw.Canvas, y []float64) []vg.Point {
	at := on(p, c)
	pts := []vg.Point{at(s.x[0], 0)}
	for i, v := range y {
		pts = append(pts, at(s.x[i], v), at(s.x[i]+s.step, v))
	}
	return append(pts, at(s.x[len(s.x)-1]+s.step, 0))
}

func (s steps) Plot(c draw.Canvas, p *plot.Plot) {
	if len(s.High) > 0 {
		s.fill(c, s.outline(p, c, s.High), .25)
	}
	mean := s.outline(p, c, s.Mean)
	s.fill(c, mean, .45)
	c.StrokeLines(draw.LineStyle{Color: hue(s.index), Width: .9}, mean)
}

func (s steps) fill(c draw.Canvas, outline []vg.Point, opacity float64) {
	path := vg.Path{{Type: vg.MoveComp, Pos: outline[0]}}
	for _, pt := range outline[1:] {
		path.Line(pt)
	}
	path.Close()
	c.SetColor(faint(hue(s.index), opacity))
	c.Fill(path)
}
