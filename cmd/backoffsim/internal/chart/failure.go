package chart

import (
	"fmt"

	"gonum.org/v1/plot/vg"
)

func (d Failure) check() error {
	c := &checker{chart: "Failure"}
	c.frame(d.Frame)
	c.axis("Probability", d.Probability, 2, 0, 1)
	c.policies("Lines", d.policies())
	for i, l := range d.Lines {
		at := fmt.Sprintf("Lines[%d].", i)
		c.band(at+"Calls", l.Calls, len(d.Probability), finite)
		c.band(at+"Success", l.Success, len(d.Probability), 100)
	}
	return c.err
}

func (d Failure) policies() []Policy {
	return policiesOf(d.Lines, func(l FailureLine) Policy { return l.Policy })
}

func (d Failure) curves(value func(FailureLine) Band) []curve {
	lines := make([]curve, len(d.Lines))
	for i, l := range d.Lines {
		lines[i] = curve{index: i, x: d.Probability, Band: value(l), name: l.Name, rank: float64(i)}
	}
	return lines
}

func (d Failure) draw() (*figure, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	calls := d.curves(func(l FailureLine) Band { return l.Calls })
	success := d.curves(func(l FailureLine) Band { return l.Success })
	for i := range calls {
		calls[i].note = number(calls[i].Mean[len(d.Probability)-1]) + " at p = " + number(d.Probability[len(d.Probability)-1])
	}
	const xlabel = "probability p that a call fails"
	left := linePanel("Calls per request", xlabel, calls, 1)
	d.callsAxis(left, calls)
	right := linePanel("Requests that succeed, %", xlabel, success, 1)
	right.aside = nil
	linear(&right.plot.Y, 0, 102, 5)
	for _, p := range []*panel{left, right} {
		p.height = max(260, 60+23*vg.Length(len(calls)))
		linear(&p.plot.X, d.Probability[0], d.Probability[len(d.Probability)-1], 5)
	}
	return &figure{
		frame: d.named("Calls and success as failures rise"), policies: d.policies(), numbered: true,
		spread: bandText(append(calls, success...)),
		blocks: []block{pair(left, right, labelRoom(calls))},
		tables: []table{
			tableOf("Calls per request, by the probability that a call fails", "policy", d.Probability, calls),
			tableOf("Requests that succeed in %, by the probability that a call fails", "policy", d.Probability, success),
		},
	}, nil
}

// callsAxis makes the axis logarithmic if the calls span more than a factor of
// ten.
func (d Failure) callsAxis(p *panel, calls []curve) {
	lo, hi, below := logRange(everything(calls), .001)
	if highest(calls, 0) <= 10*lowest(calls) || highest(calls, 0) <= 5 {
		linear(&p.plot.Y, 0, highest(calls, 1)*1.05, 5)
		return
	}
	p.heading += ", log scale"
	logarithmic(&p.plot.Y, lo, hi, below)
}
