package chart

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func (d Dip) check() error {
	c := &checker{chart: "Dip"}
	c.frame(d.Frame)
	c.text("Trigger", d.Trigger)
	c.axis("Seconds", d.Seconds, 2, -finite, finite)
	c.between(d.From, d.To)
	c.policies("Lines", d.policies())
	for i, l := range d.Lines {
		at := fmt.Sprintf("Lines[%d].", i)
		c.band(at+"Goodput", l.Goodput, len(d.Seconds), finite)
		c.band(at+"Attempts", l.Attempts, len(d.Seconds), finite)
		c.value(at+"Recovery", l.Recovery, 0, math.Inf(1))
	}
	return c.err
}

func (d Dip) policies() []Policy {
	return policiesOf(d.Lines, func(l DipLine) Policy { return l.Policy })
}

func (d Dip) curves(value func(DipLine) Band, note bool) []curve {
	lines := make([]curve, len(d.Lines))
	for i, l := range d.Lines {
		lines[i] = curve{index: i, x: d.Seconds, Band: value(l), name: l.Name, rank: l.Recovery}
		if note {
			lines[i].note = recovers(l.Recovery)
		}
	}
	return lines
}

// recovers describes a recovery time.
func recovers(after float64) string {
	if math.IsInf(after, 1) {
		return "never recovers"
	}
	return "recovers in " + seconds(after)
}

func (d Dip) draw() (*figure, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	goodput := d.curves(func(l DipLine) Band { return l.Goodput }, true)
	attempts := d.curves(func(l DipLine) Band { return l.Attempts }, false)
	top := d.panel("Goodput, % of offered requests", "", goodput, 2, d.span())
	linear(&top.plot.Y, 0, highest(goodput, 100)*1.02, 5)
	top.height = 70 + max(170, 24*vg.Length(len(goodput)))
	low := d.panel("Attempts that reach the server, multiple of its capacity", "seconds", attempts, 2, d.span(), level{1, "capacity"})
	linear(&low.plot.Y, 0, highest(attempts, 1.25)*1.04, 4)
	low.height = 70 + max(110, 13*vg.Length(len(attempts)))
	return &figure{
		frame: d.named("Goodput after the dip"), policies: d.policies(), numbered: true,
		spread: bandText(append(goodput, attempts...)),
		blocks: []block{grid([]*panel{top, low}, 1, labelRoom(goodput))},
		tables: []table{
			d.recoveries(),
			tableOf("Goodput in % of offered requests, by second", "policy", d.Seconds, goodput),
			tableOf("Attempts as a multiple of capacity, by second", "policy", d.Seconds, attempts),
		},
	}, nil
}

func (d Dip) span() span { return span{d.From, d.To} }

func (d Dip) panel(heading, xlabel string, lines []curve, tags int, below ...plot.Plotter) *panel {
	p := linePanel(heading, xlabel, lines, tags, below...)
	linear(&p.plot.X, d.Seconds[0], d.Seconds[len(d.Seconds)-1], 8)
	if d.Trigger != "" && d.To > d.From {
		p.above = func(data draw.Canvas) { d.span().name(data, p.plot, d.Trigger) }
	}
	return p
}

// recoveries is the table of the recovery times.
func (d Dip) recoveries() table {
	t := table{Caption: "Seconds from the end of the trigger to recovery", Head: []string{"policy", "recovery, s"}}
	for _, l := range d.Lines {
		t.Rows = append(t.Rows, []string{l.Name, number(l.Recovery)})
	}
	return t
}
