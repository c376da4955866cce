package chart

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refused draws valid data after a change, and wants an error.
func refused[C Chart](t *testing.T, good C, want string, change func(*C)) {
	t.Helper()
	change(&good)
	require.EqualError(t, SVG(io.Discard, good), "chart: "+want)
	require.EqualError(t, PNG(io.Discard, good), "chart: "+want)
}

func TestAFrameRefusesWhatCannotBeWritten(t *testing.T) {
	refused(t, dip(shapes), `Dip: Title is not valid UTF-8: "\xff"`, func(d *Dip) { d.Title = "\xff" })
	refused(t, dip(shapes), `Dip: Conditions has a control character: "a\nb"`, func(d *Dip) { d.Conditions = "a\nb" })
	refused(t, dip(shapes), `Dip: Notes[1] has a control character: "\x00"`, func(d *Dip) { d.Notes = []string{"fine", "\x00"} })
	refused(t, dip(shapes), `Dip: Version has a control character: "\x1b[31m"`, func(d *Dip) { d.Version = "\x1b[31m" })
	refused(t, dip(shapes), "Dip: Conditions has 1001 letters, want 1000 or fewer",
		func(d *Dip) { d.Conditions = strings.Repeat("é", 1001) })
	refused(t, dip(shapes), "Dip: Seeds is -1, want 0 or more", func(d *Dip) { d.Seeds = -1 })
}

func TestPoliciesThatCannotBeToldApartAreRefused(t *testing.T) {
	refused(t, dip(shapes), "Dip: Lines has 0 policies, want 1 to 12", func(d *Dip) { d.Lines = nil })
	refused(t, dip(shapes), "Dip: Lines has 16 policies, want 1 to 12", func(d *Dip) { d.Lines = append(d.Lines, d.Lines...) })
	refused(t, dip(shapes), "Dip: Lines[2].Name is empty", func(d *Dip) { d.Lines[2].Name = "" })
	refused(t, dip(shapes), `Dip: Lines[3].Name is "none", as another policy's`, func(d *Dip) { d.Lines[3].Name = "none" })
	refused(t, dip(shapes), `Dip: Lines[0].Parameters has a control character: "a\tb"`, func(d *Dip) { d.Lines[0].Parameters = "a\tb" })
}

func TestADipRefusesBadNumbers(t *testing.T) {
	nan := math.NaN()
	refused(t, dip(shapes), "Dip: Seconds has 0 values, want 2 or more", func(d *Dip) { d.Seconds = nil })
	refused(t, dip(shapes), "Dip: Seconds[5] is 4 after 4, want ascending values", func(d *Dip) { d.Seconds[5] = 4 })
	refused(t, dip(shapes), "Dip: Seconds[0] is -Inf, want -1e+15 to 1e+15", func(d *Dip) { d.Seconds[0] = -never })
	refused(t, dip(shapes), "Dip: From is 50, after To with 40", func(d *Dip) { d.From = 50 })
	refused(t, dip(shapes), "Dip: Lines[1].Goodput.Mean has 239 values, want 240",
		func(d *Dip) { d.Lines[1].Goodput.Mean = d.Lines[1].Goodput.Mean[1:] })
	refused(t, dip(shapes), "Dip: Lines[1].Goodput.Mean[7] is NaN, want 0 to 1e+15",
		func(d *Dip) { d.Lines[1].Goodput.Mean[7] = nan })
	refused(t, dip(shapes), "Dip: Lines[0].Attempts.High has 0 values, want 240",
		func(d *Dip) { d.Lines[0].Attempts.High = nil })
	refused(t, dip(shapes), "Dip: Lines[0].Attempts.Low[3] is 9, above High with 1",
		func(d *Dip) { d.Lines[0].Attempts.Low[3], d.Lines[0].Attempts.High[3] = 9, 1 })
	refused(t, dip(shapes), "Dip: Lines[4].Recovery is NaN, want 0 or more, +Inf for never",
		func(d *Dip) { d.Lines[4].Recovery = nan })
	refused(t, dip(shapes), "Dip: Lines[4].Recovery is -1, want 0 or more, +Inf for never",
		func(d *Dip) { d.Lines[4].Recovery = -1 })
}

func TestAFailureRefusesBadNumbers(t *testing.T) {
	refused(t, failure(), "Failure: Probability[11] is 1.5, want 0 to 1", func(d *Failure) { d.Probability[11] = 1.5 })
	refused(t, failure(), "Failure: Lines[0].Success.Mean[0] is 101, want 0 to 100",
		func(d *Failure) { d.Lines[0].Success.Mean[0] = 101 })
	refused(t, failure(), "Failure: Lines[0].Calls.Mean[0] is -1, want 0 to 1e+15",
		func(d *Failure) { d.Lines[0].Calls.Mean[0] = -1 })
}

func TestAMapRefusesBadNumbers(t *testing.T) {
	refused(t, recoveryMap(), "Map: Maps[1].Recovery has 5 rows, want 6",
		func(d *Map) { d.Maps[1].Recovery = d.Maps[1].Recovery[1:] })
	refused(t, recoveryMap(), "Map: Maps[0].Recovery[2] has 10 values, want 11",
		func(d *Map) { d.Maps[0].Recovery[2] = d.Maps[0].Recovery[2][1:] })
	refused(t, recoveryMap(), "Map: Maps[0].Recovery[0][0] is NaN, want 0 or more, +Inf for never",
		func(d *Map) { d.Maps[0].Recovery[0][0] = math.NaN() })
	refused(t, recoveryMap(), "Map: Mark.Load is 5, want 10 to 95", func(d *Map) { d.Mark.Load = 5 })
	refused(t, recoveryMap(), "Map: Mark.Y is 61, want 1 to 60", func(d *Map) { d.Mark.Y = 61 })
	refused(t, recoveryMap(), "Map: Load has 0 values, want 1 or more", func(d *Map) { d.Load = nil })
	refused(t, recoveryMap(), "Map: Horizon is +Inf, want 0 to 1e+15", func(d *Map) { d.Horizon = never })
}

func TestAHerdRefusesBadNumbers(t *testing.T) {
	refused(t, herd(), "Herd: Seconds[3] is 0.35 after 0.2, want steps of 0.1", func(d *Herd) { d.Seconds[3] = .35 })
	refused(t, herd(), "Herd: Capacity is -1, want 0 to 1e+15", func(d *Herd) { d.Capacity = -1 })
	refused(t, herd(), "Herd: Panels[2].Peak is NaN, want 0 to 1e+15", func(d *Herd) { d.Panels[2].Peak = math.NaN() })
	refused(t, herd(), "Herd: Seconds has 1 values, want 2 or more", func(d *Herd) { d.Seconds = d.Seconds[:1] })
}

func TestOtherChartsRefuseBadNumbers(t *testing.T) {
	refused(t, occ(), "OCC: Clients[0] is 0, want 1 to 1e+15", func(d *OCC) { d.Clients[0] = 0 })
	refused(t, occ(), "OCC: Lines[1].Calls.SE has 1 values, want 12", func(d *OCC) { d.Lines[1].Calls.SE = []float64{1} })
	refused(t, layers(), "Layers: Hops has 0 names, want 1 to 12", func(d *Layers) { d.Hops = nil })
	refused(t, layers(), "Layers: Policies[0].Calls has 3 values, want 4",
		func(d *Layers) { d.Policies[0].Calls = d.Policies[0].Calls[1:] })
	refused(t, delays(), "Delays: Deadline is -1, want 0 to 1e+15", func(d *Delays) { d.Deadline = -1 })
	refused(t, delays(), "Delays: Lines[0].Delay.Mean is empty: a policy without retries has no delays to show",
		func(d *Delays) { d.Lines[0].Delay = Band{} })
	refused(t, delays(), "Delays: Lines[0].Elapsed.Mean has 2 values, want 3",
		func(d *Delays) { d.Lines[0].Elapsed.Mean = d.Lines[0].Elapsed.Mean[1:] })
}

func TestNoChartIsRefused(t *testing.T) {
	require.EqualError(t, SVG(io.Discard, nil), "chart: no chart to draw")
	require.EqualError(t, PNG(io.Discard, nil), "chart: no chart to draw")
}
