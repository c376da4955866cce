package chart

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

// newPlot returns an empty plot in the common style, without a frame. The
// heading above the plot names the y axis, because vertical text is hard to
// read.
func newPlot(xlabel string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text = xlabel
	p.X.Label.TextStyle = noteText.style(draw.XCenter, draw.YBottom)
	p.X.Label.Padding = 2
	p.X.Tick.Label = noteText.style(draw.XCenter, draw.YTop)
	p.Y.Tick.Label = noteText.style(draw.XRight, draw.YCenter-.08)
	p.X.Padding, p.Y.Padding = 6, 0
	p.X.LineStyle = draw.LineStyle{Color: muted.light, Width: .8}
	p.Y.LineStyle.Width = 0
	p.X.Tick.LineStyle, p.Y.Tick.LineStyle = p.X.LineStyle, draw.LineStyle{}
	p.X.Tick.Length, p.Y.Tick.Length = 3, 0
	return p
}

// A plotted is a func that implements plot.Plotter.
type plotted func(c draw.Canvas, p *plot.Plot)

// Plot implements plot.Plotter.
func (f plotted) Plot(c draw.Canvas, p *plot.Plot) { f(c, p) }

// ruled adds a horizontal line at each tick of the y axis.
func ruled(p *plot.Plot) *plot.Plot {
	p.Add(&plotter.Grid{Horizontal: draw.LineStyle{Color: rule.light, Width: .6}})
	return p
}

// number formats v with three digits and at most six decimals: 1234, 12.3,
// 0.123.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsInf(v, 1):
		return "never"
	case a == 0:
		return "0"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		digits := 2 - int(math.Floor(math.Log10(a)))
		return trim(strconv.FormatFloat(v, 'f', min(digits, 6), 64))
	}
}

// trim removes trailing zeros after the point.
func trim(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// exact formats v with up to nine digits.
func exact(v float64) string {
	if v == 0 {
		return "0" // and not -0
	}
	return strconv.FormatFloat(v, 'g', 9, 64)
}

// seconds formats a time with its unit.
func seconds(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "never"
	case v > 0 && v < 1:
		return number(1000*v) + " ms"
	default:
		return number(v) + " s"
	}
}

// linear sets about n ticks at round values on an axis from lo to hi.
func linear(a *plot.Axis, lo, hi float64, n int) {
	a.Min, a.Max = lo, hi
	if lo == hi {
		a.Min, a.Max = lo-1, hi+1
	}
	step := roundStep((a.Max - a.Min) / float64(n) * .66)
	var ticks []plot.Tick
	first := math.Ceil(a.Min/step - 1e-9)
	for i := range 3 * n {
		if v := (first + float64(i)) * step; v <= a.Max+1e-9*step {
			ticks = append(ticks, plot.Tick{Value: v, Label: exact(v)})
		}
	}
	a.Tick.Marker = plot.ConstantTicks(ticks)
}

// roundStep returns the smallest of 1, 2 and 5 times a power of ten that is not
// below v.
func roundStep(v float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*ten >= v*(1-1e-9) {
			return f * ten
		}
	}
	return 10 * ten
}

// fewest is the lowest value that a logarithmic axis shows exactly.
const fewest = .001

// logarithmic makes an axis for lines logarithmic: from the power of ten below
// the smallest value, but at least fewest, to above the largest. Ticks are at
// powers of ten, and also at 2 and 5 times these if there are few. Values below
// fewest are drawn at the end of the axis, and the lowest tick says so.
func logarithmic(a *plot.Axis, lines []curve) {
	all := everything(lines)
	least := slices.Min(all)
	lo := math.Pow(10, math.Floor(math.Log10(max(least, fewest))+1e-9))
	hi := max(slices.Max(all)*1.15, lo*10)
	a.Scale = plot.LogScale{}
	a.Min, a.Max = lo, hi
	few := hi/lo < 150
	var ticks []plot.Tick
	for power := lo; power <= hi; power *= 10 {
		for _, f := range []float64{1, 2, 5} {
			if v := f * power; v <= hi && (few || f == 1) {
				ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
			}
		}
	}
	if least < fewest {
		ticks[0].Label = "≤ " + ticks[0].Label
	}
	a.Tick.Marker = plot.ConstantTicks(ticks)
}
