package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
	"github.com/gobackoff/backoff/internal/lab/docpage"
)

// A cell is a run beside its simulation.
type cell struct {
	*run
	simulation sim.Result
}

// The sizes of the picture. Panels stand in rows of four, first those of the
// lowest load.
const (
	width, panelWidth, panelHeight = 866, 192, 80
	left, top, columnGap, rowGap   = 40, 62, 16, 60
	inRow                          = 4
	highest                        = 130 // percent
)

// The colours follow the reader's scheme.
const style = `<style>
text{font:11px "Liberation Sans",Arimo,Arial,Helvetica,sans-serif;fill:#57606A}
.title,.load{font-size:16px;font-weight:bold;fill:#1F2328}
.load{font-size:13px}.small{font-size:10.5px}
.name{font-weight:bold;fill:#1F2328}
.paper{fill:#FFFFFF}.dip{fill:#ECE3CF}.rule{stroke:#DDE1E6}
.band{fill:#3A86D4;opacity:.25}
polyline{fill:none;stroke-linejoin:round}
.model{stroke:#3A86D4;stroke-width:1.2;stroke-dasharray:4 3}
.real{stroke:#24292F;stroke-width:1.4}
@media (prefers-color-scheme:dark){
text{fill:#9DA7B3}.title,.load,.name{fill:#E6EDF3}
.paper{fill:#0D1117}.dip{fill:#3B3423}.rule{stroke:#30363D}
.band{fill:#79C0FF}.model{stroke:#79C0FF}.real{stroke:#DCE3EA}
}
</style>
`

// A picture is panels, and what is around them.
type picture struct{ docpage.SVG }

// draw returns the picture of all cells, which are sorted.
func draw(cells []cell) string {
	var panels picture
	y, inGroup := top, 0
	for i, c := range cells {
		if i == 0 || c.Setup.Load != cells[i-1].Setup.Load {
			panels.Text(left, y, "load", fmt.Sprintf("load %d %% of capacity", c.Setup.Load))
			y, inGroup = y+46, 0
		}
		panels.panel(left+inGroup%inRow*(panelWidth+columnGap), y, c, inGroup%inRow == 0)
		inGroup++
		if last := i == len(cells)-1 || c.Setup.Load != cells[i+1].Setup.Load; last || inGroup%inRow == 0 {
			y += panelHeight + rowGap
		}
	}
	var p picture
	p.legend()
	p.WriteString(panels.String())
	return p.Document(width, y-rowGap/2, "A busy server has 30 % of its capacity for ten seconds: calls that succeed, %", describe(cells), style)
}

// legend says what the lines are.
func (p *picture) legend() {
	p.Line(`<polyline class="real" points="8,36 40,36"/>`)
	p.Line(`<rect class="band" x="210" y="32" width="32" height="8"/><polyline class="model" points="210,36 242,36"/>`)
	p.Text(46, 40, "", "measured on real sockets")
	p.Text(248, 40, "", fmt.Sprintf("simulated: mean and 5 to 95 %% of %d runs. In seconds.", simulations))
}

// describe says what the picture shows, for those who cannot see it.
func describe(cells []cell) string {
	var all []string
	for _, c := range cells {
		all = append(all, fmt.Sprintf("%s, load %d %%: %s; %s.", clientNamed(c.Client).caption, c.Setup.Load, c.successes(), c.recoveries()))
	}
	return strings.Join(all, " ")
}

// successes says how many calls succeed from the beginning of the dip on, measured and simulated.
func (c cell) successes() string {
	return fmt.Sprintf("%.0f %% succeed; simulated %.0f %%", 100*c.figures().success, 100*simulated(c.simulation).success)
}

// recoveries says how long the recovery takes, measured and simulated.
func (c cell) recoveries() string {
	f, m := c.figures(), simulated(c.simulation)
	m.never = 0 // that is in the table
	if f.recovery < 0 && m.recovery < 0 {
		return "recovery " + f.recovers(c.Setup) + ", nor simulated"
	}
	return "recovery " + f.recovers(c.Setup) + "; simulated " + m.recovers(c.Setup)
}

// panel draws a panel. Its upper left corner is given, and whether its y axis has
// numbers.
func (p *picture) panel(x, y int, c cell, numbers bool) {
	s := c.Setup
	second := float64(panelWidth) / s.Horizon.Seconds()
	p.Text(x, y-28, "name", clientNamed(c.Client).caption)
	p.Text(x, y-16, "small", c.successes())
	p.Text(x, y-4, "small", c.recoveries())
	p.Line(`<rect class="dip" x="%.1f" y="%d" width="%.1f" height="%d"/>`, float64(x)+second*s.From.Seconds(), y, second*s.For.Seconds(), panelHeight)
	for _, percent := range []int{0, 50, 100} {
		at := float64(y) + depth(float64(percent))
		p.Line(`<path class="rule" d="M%d %.1fh%d"/>`, x, at, panelWidth)
		if numbers {
			p.Line(`<text x="%d" y="%.1f" text-anchor="end">%d</text>`, x-5, at+4, percent)
		}
	}
	for _, tick := range []struct {
		at     time.Duration
		anchor string
		dx     int
	}{{0, "start", 0}, {s.From, "end", 4}, {s.From + s.For, "start", -4}, {s.Horizon, "end", 0}} {
		p.Line(`<text x="%.1f" dx="%d" y="%d" text-anchor="%s">%d</text>`, float64(x)+second*tick.at.Seconds(), tick.dx, y+panelHeight+12, tick.anchor, seconds(tick.at))
	}
	p.curves(c, func(i int, n float64) string {
		return fmt.Sprintf("%.1f,%.1f", float64(x)+second*(float64(i)+0.5), float64(y)+depth(100*n/s.rate()))
	})
}

// curves draws the successes of each second. at says where a number is in the panel.
func (p *picture) curves(c cell, at func(second int, n float64) string) {
	var real, mean, low, high []string
	for i, point := range c.simulation.Series {
		real = append(real, at(i, float64(c.Fleet.Good[i].Load())))
		mean, low, high = append(mean, at(i, point.Good.Mean)), append(low, at(i, point.Good.P5)), append(high, at(i, point.Good.P95))
	}
	slices.Reverse(low)
	p.Line(`<polygon class="band" points="%s %s"/>`, strings.Join(high, " "), strings.Join(low, " "))
	p.Line(`<polyline class="real" points="%s"/>`, strings.Join(real, " "))
	p.Line(`<polyline class="model" points="%s"/>`, strings.Join(mean, " "))
}

// depth returns how far below the upper edge of a panel a goodput is drawn.
func depth(percent float64) float64 { return panelHeight * (1 - min(percent, highest)/highest) }
