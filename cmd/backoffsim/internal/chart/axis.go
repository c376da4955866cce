package chart

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

// newPlot is an empty plot in the style of all others, without a frame. The name of the y
// axis is in the heading above, where it can be read without turning one's head.
func newPlot(xlabel string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text = xlabel
	p.X.Label.TextStyle = noteText.style(draw.XCenter, draw.YBottom)
	p.X.Label.Padding = 2
	p.X.Tick.Label = noteText.style(draw.XCenter, draw.YTop)
	p.Y.Tick.Label = noteText.style(draw.XRight, draw.YCenter-.08)
	p.X.Padding, p.Y.Padding = 3, 0
	p.X.LineStyle = draw.LineStyle{Color: muted.light, Width: .8}
	p.Y.LineStyle.Width = 0
	p.X.Tick.LineStyle, p.Y.Tick.LineStyle = p.X.LineStyle, draw.LineStyle{}
	p.X.Tick.Length, p.Y.Tick.Length = 3, 0
	return p
}

// ruled adds a rule at each tick of the y axis.
func ruled(p *plot.Plot) *plot.Plot {
	p.Add(&plotter.Grid{Horizontal: draw.LineStyle{Color: rule.light, Width: .6}})
	return p
}

// number writes v with three digits, as far as six decimals have them: 1234, 12.3, 0.123.
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

func trim(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// exact writes v as it is, up to nine digits.
func exact(v float64) string {
	if v == 0 {
		return "0" // and not -0
	}
	return strconv.FormatFloat(v, 'g', 9, 64)
}

// seconds writes a time with its unit.
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

// roundStep is the least of 1, 2, 5, times a power of ten, that is not below v.
func roundStep(v float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*ten >= v*(1-1e-9) {
			return f * ten
		}
	}
	return 10 * ten
}

// logarithmic sets ticks at powers of ten, and at 2 and 5 times them if there are few,
// on an axis that shows all of lo to hi. What is below lo lies on the floor, which the
// lowest tick then says.
func logarithmic(a *plot.Axis, lo, hi float64, below bool) {
	a.Scale = plot.LogScale{}
	a.Min, a.Max = lo, hi
	few := hi/lo < 150
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(lo)); math.Pow(10, e) <= hi*(1+1e-9); e++ {
		for _, f := range []float64{1, 2, 5} {
			v := f * math.Pow(10, e)
			if v < lo*(1-1e-9) || v > hi*(1+1e-9) || f > 1 && !few {
				continue
			}
			ticks = append(ticks, plot.Tick{Value: min(max(v, lo), hi), Label: number(v)})
		}
	}
	if below {
		ticks = append(ticks, plot.Tick{Value: lo, Label: "≤ " + number(lo)})
		if number(lo) == ticks[0].Label {
			ticks = ticks[1:]
		}
	}
	a.Tick.Marker = plot.ConstantTicks(ticks)
}

// logRange is the range of a log axis for values: from the power of ten below the least
// positive one, no lower than floor, to above the largest.
func logRange(values []float64, floor float64) (lo, hi float64, below bool) {
	lo, hi = math.Inf(1), floor
	for _, v := range values {
		hi = max(hi, v)
		if v >= floor {
			lo = min(lo, v)
		} else {
			below = true
		}
	}
	if below {
		lo = floor
	}
	lo = math.Pow(10, math.Floor(math.Log10(min(lo, hi))+1e-9))
	return lo, max(hi*1.15, lo*10), below
}
