package chart

import (
	"io"
	"math"
	"testing"
)

// FuzzNumbers draws any numbers as any chart. Each is drawn or refused, and
// none panics.
func FuzzNumbers(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 4.0, "name")
	f.Add(0.0, 0.0, 0.0, 0.0, "")
	f.Add(1e15, 1e-300, math.Inf(1), math.NaN(), "é \x00")
	f.Add(1e15, 1e15-1, -1e15, 1e-9, "x")
	f.Fuzz(func(t *testing.T, a, b, c, d float64, text string) {
		band := Band{Mean: []float64{a, b}, Low: []float64{c, d}, High: []float64{b, a}}
		estimate := Estimate{Mean: []float64{a, b}, SE: []float64{c, d}}
		p := Policy{Name: text, Parameters: text}
		frame := Frame{Title: text, Conditions: text, Notes: []string{text}}
		for _, chart := range []Chart{
			Dip{frame, []float64{a, b}, c, d, text, []DipLine{{p, band, band, c}}},
			Dip{frame, []float64{0, 1}, 0, 1, text, []DipLine{{p, Band{Mean: band.Mean}, band, d}}},
			Failure{frame, []float64{a, b}, []FailureLine{{p, band, band}}},
			Failure{frame, []float64{0, 1}, []FailureLine{{p, Band{Mean: band.Mean}, Band{Mean: []float64{1, 0}}}}},
			Map{frame, []float64{a, b}, []float64{c}, text, d, &Mark{a, c, text}, []PolicyMap{{p, [][]float64{{c, d}}}}},
			Herd{frame, []float64{a, b}, 0, c, d, []HerdPanel{{p, band, c, d}}},
			OCC{frame, []float64{a, b}, []OCCLine{{p, estimate, estimate}}},
			Layers{frame, []string{text, "leaf"}, []LayersPolicy{{p, []float64{a, b}}}},
			Delays{frame, d, []DelaysLine{{p, band, band}}},
			Delays{frame, c, []DelaysLine{{p, Band{Mean: []float64{a}}, Band{Mean: []float64{b}}}}},
		} {
			_ = SVG(io.Discard, chart)
		}
	})
}
