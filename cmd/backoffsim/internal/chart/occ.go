package chart

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot/vg"
)

func (d OCC) check() error {
	c := &checker{chart: "OCC"}
	c.frame(d.Frame)
	c.axis("Clients", d.Clients, 1, 1, finite)
	c.policies("Lines", d.policies())
	for i, l := range d.Lines {
		at := fmt.Sprintf("Lines[%d].", i)
		c.estimate(at+"Calls", l.Calls, len(d.Clients))
		c.estimate(at+"Time", l.Time, len(d.Clients))
	}
	return c.err
}

func (d OCC) policies() []Policy {
	return policiesOf(d.Lines, func(l OCCLine) Policy { return l.Policy })
}

// band returns a band of two standard errors each way.
func (e Estimate) band() Band {
	b := Band{Mean: e.Mean}
	for i, se := range e.SE {
		b.Low = append(b.Low, max(0, e.Mean[i]-2*se))
		b.High = append(b.High, e.Mean[i]+2*se)
	}
	return b
}

func (d OCC) curves(value func(OCCLine) Estimate) []curve {
	lines := make([]curve, len(d.Lines))
	for i, l := range d.Lines {
		lines[i] = curve{index: i, x: d.Clients, Band: value(l).band(), bars: true, name: l.Name, rank: float64(i)}
	}
	return lines
}

func (d OCC) draw() (*figure, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	calls := d.curves(func(l OCCLine) Estimate { return l.Calls })
	times := d.curves(func(l OCCLine) Estimate { return l.Time })
	top := linePanel("Calls until every client has succeeded", "", calls, 1)
	linear(&top.plot.Y, 0, highest(calls, 1)*1.03, 5)
	low := linePanel("Seconds until then, log scale", "clients that contend", times, 1)
	lo, hi, below := logRange(everything(times), .001)
	logarithmic(&low.plot.Y, lo, hi, below)
	for _, p := range []*panel{top, low} {
		p.height = max(200, 60+13*vg.Length(len(calls)))
		linear(&p.plot.X, min(0, d.Clients[0]), slices.Max(d.Clients)*1.01, 8)
	}
	f := &figure{
		frame: d.named("Clients that contend for one row"), policies: d.policies(), numbered: true,
		blocks: []block{grid([]*panel{top, low}, 1, labelRoom(calls))},
		tables: []table{
			tableOf("Calls until every client has succeeded, by clients", "policy", d.Clients, calls),
			tableOf("Seconds until every client has succeeded, by clients", "policy", d.Clients, times),
		},
	}
	if banded(append(calls, times...)) {
		f.spread = "; the bars are two standard errors each way"
	}
	return f, nil
}
