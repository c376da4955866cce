package chart

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// layOut places the panels in two columns.
func (d Layers) layOut() *figure {
	var all []float64
	var rows [][]string
	for _, p := range d.Policies {
		all = append(all, p.Calls...)
		row := []string{p.Name}
		for _, v := range p.Calls {
			row = append(row, number(v))
		}
		rows = append(rows, row)
	}
	lo, hi := d.extent(all)
	var panels []*panel
	for i := range d.Policies {
		p := d.panel(i)
		powers(&p.plot.X, lo, hi)
		panels = append(panels, p)
	}
	return &figure{
		frame: d.named("Calls per request of a user, hop by hop"), policies: policiesOf(d.Policies),
		also: []string{"The scale is logarithmic: bars to the right of the line at 1 are calls that retries have added, " +
			"bars to the left are requests that no longer arrive."},
		blocks: []block{grid(panels, 2, 4)},
		words:  inWords("Calls per request of a user", rows),
	}
}

// fewestCalls is where the bars of fewer calls end, and of none.
const fewestCalls = 1e-4

// extent returns the range of the axis, with room between the names and the bars,
// and for the numbers after them.
func (d Layers) extent(all []float64) (lo, hi float64) {
	lo, hi = .5, 2
	for _, v := range all {
		lo, hi = min(lo, max(v, fewestCalls)), max(hi, v)
	}
	if decades := math.Log10(hi / lo); lo < .5 {
		lo /= math.Pow(10, decades*.08)
	}
	return lo, hi * math.Pow(hi/lo, .12)
}

// panel returns the panel of one policy, with its hops from the top down.
func (d Layers) panel(i int) *panel {
	p := newPlot("")
	last := float64(len(d.Hops) - 1)
	linear(&p.Y, -.5, last+.5, 1)
	ticks := make([]plot.Tick, len(d.Hops))
	for k, name := range d.Hops {
		ticks[k] = plot.Tick{Value: last - float64(k), Label: bodyText.clip(name, 90)}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Add(bars(i, d.Policies[i].Calls))
	return &panel{
		heading: headText.clip(d.Policies[i].Name, inner/2-gap), plot: p,
		height: headLine + 22 + 15*vg.Length(len(d.Hops)),
	}
}

// bars draws the bars of one policy from 1 to its values. The last hop, which
// is the service, has the strongest colour.
func bars(policy int, calls []float64) plotted {
	return func(c draw.Canvas, p *plot.Plot) {
		toX, toY := p.Transforms(&c)
		one, last := toX(1), len(calls)-1
		c.StrokeLine2(draw.LineStyle{Color: muted.light, Width: .8}, one, c.Min.Y, one, c.Max.Y)
		for k, v := range calls {
			y, end, strength := toY(float64(last-k)), toX(max(v, fewestCalls)), .45
			if k == last {
				strength = 1
			}
			c.SetColor(faint(hue(policy), strength))
			c.Fill(vg.Rectangle{
				Min: vg.Point{X: min(one-1, end), Y: y - 4.5}, Max: vg.Point{X: max(one+1, end), Y: y + 4.5},
			}.Path())
			labelText.write(c, vg.Point{X: max(end, one) + 5, Y: y - 3}, draw.XLeft, number(v))
		}
	}
}
