package chart

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

func (d Delays) check() error {
	c := &checker{chart: "Delays"}
	c.frame(d.Frame)
	c.value("Deadline", d.Deadline, 0, finite)
	c.policies("Lines", d.policies())
	for i, l := range d.Lines {
		at := fmt.Sprintf("Lines[%d].", i)
		if len(l.Delay.Mean) == 0 {
			c.refuse("%sDelay.Mean is empty: a policy without retries has no delays to show", at)
		}
		c.band(at+"Delay", l.Delay, len(l.Delay.Mean), finite)
		c.band(at+"Elapsed", l.Elapsed, len(l.Delay.Mean), finite)
	}
	return c.err
}

func (d Delays) policies() []Policy {
	return policiesOf(d.Lines, func(l DelaysLine) Policy { return l.Policy })
}

// retries returns the number of retries of the longest line.
func (d Delays) retries() int {
	n := 0
	for _, l := range d.Lines {
		n = max(n, len(l.Delay.Mean))
	}
	return n
}

// curves returns the lines, shifted so that the bars of a retry are beside each
// other.
func (d Delays) curves(value func(DelaysLine) Band) []curve {
	lines := make([]curve, len(d.Lines))
	for i, l := range d.Lines {
		b := value(l)
		x := make([]float64, len(b.Mean))
		for k := range x {
			x[k] = float64(k+1) + d.shift(i)
		}
		lines[i] = curve{index: i, x: x, Band: b, bars: true, name: l.Name, rank: float64(i)}
	}
	return lines
}

// shift returns how far line i is shifted.
func (d Delays) shift(i int) float64 {
	n := float64(len(d.Lines))
	return (float64(i) - (n-1)/2) * min(.12, .7/n)
}

func (d Delays) draw() (*figure, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	delays := d.curves(func(l DelaysLine) Band { return l.Delay })
	elapsed := d.curves(func(l DelaysLine) Band { return l.Elapsed })
	for i := range elapsed {
		b := elapsed[i].Band
		elapsed[i].note = seconds(b.Mean[len(b.Mean)-1]) + " in all"
		if n := len(b.High); n > 0 && b.High[n-1] > b.Mean[n-1] {
			elapsed[i].note += ", at most " + seconds(b.High[n-1])
		}
	}
	top := d.panel("Delay before each retry, seconds, log scale", "", delays)
	low := d.panel("Sum of the delays, seconds, log scale", "retry", elapsed, d.deadline()...)
	f := &figure{
		frame: d.named("When a policy retries"), policies: d.policies(), numbered: true,
		blocks: []block{grid([]*panel{top, low}, 1, labelRoom(elapsed))},
		tables: []table{d.table("Mean delay before each retry, in seconds", delays), d.table("Mean sum of the delays, in seconds", elapsed)},
	}
	if banded(delays) {
		f.also = []string{"The lines are means, the bars the least and the most that the jitter allows."}
	}
	return f, nil
}

func (d Delays) deadline() []plot.Plotter {
	if d.Deadline == 0 {
		return nil
	}
	return []plot.Plotter{level{d.Deadline, "deadline " + seconds(d.Deadline)}}
}

func (d Delays) panel(heading, xlabel string, lines []curve, below ...plot.Plotter) *panel {
	p := linePanel(heading, xlabel, lines, 1, below...)
	lo, hi, under := logRange(append(means(lines), highest(lines, d.Deadline)), .001)
	for _, v := range everything(lines) {
		under = under || v < lo
	}
	logarithmic(&p.plot.Y, lo, hi, under)
	p.height = max(190, 60+23*vg.Length(len(lines)))
	n := float64(d.retries())
	linear(&p.plot.X, .5, n+.5, min(d.retries(), 12))
	return p
}

func means(lines []curve) []float64 {
	var all []float64
	for _, k := range lines {
		all = append(all, k.Mean...)
	}
	return all
}

// table has a column for each retry, at most 12, and gaps where a policy has
// given up.
func (d Delays) table(caption string, lines []curve) table {
	t := table{Caption: caption, Head: []string{"policy"}}
	at := sample(d.retries(), 12)
	for _, i := range at {
		t.Head = append(t.Head, fmt.Sprintf("retry %d", i+1))
	}
	for _, k := range lines {
		row := []string{k.name}
		for _, i := range at {
			cell := "none"
			if i < len(k.Mean) {
				cell = rangeOf(k.Band, i)
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// rangeOf writes a mean with its bounds.
func rangeOf(b Band, i int) string {
	if len(b.Low) == 0 || b.Low[i] == b.High[i] {
		return number(b.Mean[i])
	}
	return fmt.Sprintf("%s (%s to %s)", number(b.Mean[i]), number(b.Low[i]), number(b.High[i]))
}
