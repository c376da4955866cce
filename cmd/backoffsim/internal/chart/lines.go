package chart

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// layOut places the goodput above the load.
func (d Dip) layOut() *figure {
	goodput, attempts := curvesOf(d.Seconds, d.Lines)
	for i, l := range d.Lines {
		goodput[i].note = recovers(l.Recovery)
	}
	top := d.panel("Goodput, % of offered requests", "", goodput)
	linear(&top.plot.Y, 0, highest(goodput, 100)*1.02, 5)
	top.height = 70 + max(170, 24*vg.Length(len(goodput)))
	low := d.panel("Attempts that reach the server, multiple of its capacity", "seconds", attempts, level{1, "capacity"})
	linear(&low.plot.Y, 0, highest(attempts, 1.25)*1.04, 4)
	low.height = 70 + max(110, 13*vg.Length(len(attempts)))
	return &figure{
		frame: d.named("Goodput after the dip"), policies: policiesOf(d.Lines),
		spread: spreadText(d.Lines), panels: []*panel{top, low}, room: labelRoom(goodput),
	}
}

// recovers describes a recovery time.
func recovers(after float64) string {
	if math.IsInf(after, 1) {
		return "never recovers"
	}
	return "recovers in " + seconds(after)
}

func (d Dip) panel(heading, xlabel string, lines []curve, below ...plot.Plotter) *panel {
	fault := span{d.From, d.To}
	p := linePanel(heading, xlabel, lines, append([]plot.Plotter{fault}, below...)...)
	linear(&p.plot.X, d.Seconds[0], d.Seconds[len(d.Seconds)-1], 8)
	if d.Trigger != "" && d.To > d.From {
		p.above = func(data draw.Canvas) { fault.name(data, p.plot, d.Trigger) }
	}
	return p
}

// layOut places the calls above the success.
func (d Failure) layOut() *figure {
	calls, success := curvesOf(d.Probability, d.Lines)
	last := len(d.Probability) - 1
	for i := range calls {
		calls[i].note = number(calls[i].Mean[last]) + " at p = " + number(d.Probability[last])
	}
	top := linePanel("Calls per request", "", calls)
	if most := highest(calls, 0); most <= 10*lowest(calls) || most <= 5 {
		linear(&top.plot.Y, 0, highest(calls, 1)*1.05, 5)
	} else {
		top.heading += ", log scale"
		logarithmic(&top.plot.Y, calls)
	}
	low := linePanel("Requests that succeed, %", "probability p that a call fails", success)
	linear(&low.plot.Y, 0, 102, 5)
	top.height, low.height = max(200, 60+23*vg.Length(len(calls))), max(200, 60+13*vg.Length(len(calls)))
	for _, p := range []*panel{top, low} {
		linear(&p.plot.X, d.Probability[0], d.Probability[last], 8)
	}
	return &figure{
		frame: d.named("Calls and success as failures rise"), policies: policiesOf(d.Lines),
		panels: []*panel{top, low}, room: labelRoom(calls),
	}
}

// named returns f with the given title if f has none.
func (f Frame) named(title string) Frame {
	f.Title = cmp.Or(f.Title, title)
	return f
}

func (p Policy) policy() Policy { return p }

// policiesOf returns the policy of each line or panel.
func policiesOf[L interface{ policy() Policy }](lines []L) []Policy {
	all := make([]Policy, len(lines))
	for i, l := range lines {
		all[i] = l.policy()
	}
	return all
}

// curvesOf returns the curves of both plots.
func curvesOf(x []float64, lines []Line) (first, second []curve) {
	for i, l := range lines {
		c := curve{index: i, x: x, name: l.Name}
		c.Band = l.First
		first = append(first, c)
		c.Band = l.Second
		second = append(second, c)
	}
	return first, second
}

// highest returns the largest value of all lines and their bands, and at least
// the given one.
func highest(lines []curve, least float64) float64 {
	return slices.Max(append(everything(lines), least))
}

// lowest returns the smallest positive value of all lines and their bands.
func lowest(lines []curve) float64 {
	least := math.Inf(1)
	for _, v := range everything(lines) {
		if v > 0 {
			least = min(least, v)
		}
	}
	return least
}

// everything returns all values of lines and their bands.
func everything(lines []curve) []float64 {
	var all []float64
	for _, k := range lines {
		all = slices.Concat(all, k.Mean, k.Low, k.High)
	}
	return all
}

// spreadText describes the bands, if a line has one.
func spreadText(lines []Line) string {
	if slices.ContainsFunc(lines, func(l Line) bool { return len(l.First.Low) > 0 }) {
		return "; the areas span 5 % to 95 % of the runs"
	}
	return ""
}

// linePanel returns a panel with lines, drawn over the plotters of below.
func linePanel(heading, xlabel string, lines []curve, below ...plot.Plotter) *panel {
	p := ruled(newPlot(xlabel))
	p.Add(below...)
	p.Add(curves(lines))
	return &panel{heading: heading, plot: p, aside: labels(p, lines)}
}
