package chart_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
)

func ExampleSVG() {
	var b bytes.Buffer
	err := chart.SVG(&b, chart.Dip{
		Frame:   chart.Frame{Conditions: "Open loop at 80 % load.", Seed: 1, Seeds: 10, Version: "v1.0.0"},
		Seconds: []float64{0, 30, 40, 60},
		From:    30, To: 40, Trigger: "dip to 30 %",
		Lines: []chart.DipLine{
			{
				Policy:   chart.Policy{Name: "none", Parameters: "no retries"},
				Goodput:  chart.Band{Mean: []float64{100, 100, 0, 100}},
				Attempts: chart.Band{Mean: []float64{.8, .8, .8, .8}},
				Recovery: 21,
			},
			{
				Policy:   chart.Policy{Name: "naive", Parameters: "3 retries at once"},
				Goodput:  chart.Band{Mean: []float64{100, 100, 0, 0}},
				Attempts: chart.Band{Mean: []float64{.8, .8, 3.2, 3.2}},
				Recovery: math.Inf(1),
			},
		},
	})
	fmt.Println(err, strings.Contains(b.String(), "never recovers"))
	// Output: <nil> true
}

func ExamplePNG() {
	var b bytes.Buffer
	err := chart.PNG(&b, chart.Layers{
		Hops: []string{"gateway", "service", "database"},
		Policies: []chart.LayersPolicy{
			{Policy: chart.Policy{Name: "naive", Parameters: "4 attempts at each hop"}, Calls: []float64{1, 4, 16}},
		},
	})
	fmt.Printf("%v %q\n", err, b.String()[1:4])
	// Output: <nil> "PNG"
}

func ExampleHTML() {
	var b bytes.Buffer
	fmt.Println(chart.HTML(&b, "What mine.json plans", chart.Delays{
		Deadline: 30,
		Lines: []chart.DelaysLine{{
			Policy:  chart.Policy{Name: "mine", Parameters: "1 s, factor 2, full jitter"},
			Delay:   chart.Band{Mean: []float64{.5, 1}, Low: []float64{0, 0}, High: []float64{1, 2}},
			Elapsed: chart.Band{Mean: []float64{.5, 1.5, 3.5}, Low: []float64{0, 0}, High: []float64{1, 3}},
		}},
	}))
	// Output: chart: Delays: Lines[0].Elapsed.Mean has 3 values, want 2
}
