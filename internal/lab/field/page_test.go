package main

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// fixed returns a run of 12 s with a dip from second 2 to 4, in which so many
// calls of the 800 in each second succeed.
func fixed(name string, good ...int64) *run {
	s := usual(80)
	s.From, s.For, s.Horizon = 2*time.Second, 2*time.Second, time.Duration(len(good))*time.Second
	r := &run{Client: name, Setup: s, Date: "2000-01-01", Machine: "a machine", FleetCPU: 0.5, ServiceCPU: 0.25}
	for _, counts := range []*[]count{&r.Fleet.Calls, &r.Fleet.Good, &r.Fleet.Lost, &r.Fleet.Attempts} {
		*counts = make([]count, len(good))
	}
	for i, n := range good {
		r.Fleet.Calls[i].Store(800)
		r.Fleet.Good[i].Store(n)
		r.Fleet.Lost[i].Store(800 - n)
		r.Fleet.Attempts[i].Store(1600)
	}
	return r
}

func TestRecoveryIsTheFirstOfFiveSecondsWithNineTenthsOfTheCalls(t *testing.T) {
	for _, c := range []struct {
		good []int64
		want float64
	}{
		{[]int64{800, 800, 100, 100, 800, 800, 800, 800, 800, 0}, 0},
		{[]int64{800, 800, 800, 800, 0, 720, 720, 720, 720, 720}, 1},
		{[]int64{800, 800, 800, 800, 719, 720, 720, 719, 720, 720, 720, 720, 720}, 4},
		{[]int64{800, 800, 800, 800, 800, 800, 800, 800, 0, 800, 800, 800, 800}, -1},
	} {
		r := fixed("none", c.good...)
		require.Equal(t, c.want, r.recovery(), c.good)
	}
	r := fixed("none", 800, 800, 0, 400, 800, 800, 800, 800, 800)
	f := r.figures()
	require.Equal(t, figures{success: 4400.0 / 5600, recovery: 0, attempts: 2}, f)
	require.Equal(t, "0 s", f.recovers(r.Setup))
	require.Equal(t, "not in 5 s", figures{recovery: -1, never: 10}.recovers(r.Setup))
	require.Equal(t, "11.2 s; in 2 of 10 not in 5 s", figures{recovery: 11.21, never: 2}.recovers(r.Setup))
}

// The definitions are the simulator's: what the simulator counted in one run
// gives the figures that it says.
func TestTheFiguresAreThoseOfTheSimulator(t *testing.T) {
	for _, name := range []string{"backoffhttp", "none", "hand"} {
		s := small()
		s.Slots, s.Horizon = 20, 20*time.Second
		results, err := sim.Compare(s.scenario(), []sim.Client{clientNamed(name).model(s)}, sim.Options{Seeds: 1, First: s.Seed})
		require.NoError(t, err)
		r := &run{Client: name, Setup: s}
		calls := make([]count, seconds(s.Horizon))
		for _, at := range s.arrivals() {
			calls[at/time.Second].Add(1)
		}
		for i, point := range results[0].Series {
			require.EqualValues(t, point.Calls, calls[i].Load(), "the same calls come")
			for counts, n := range map[*[]count]float64{&r.Fleet.Calls: point.Calls, &r.Fleet.Good: point.Good.Mean, &r.Fleet.Lost: point.Lost, &r.Fleet.Attempts: point.Attempts.Mean} {
				*counts = append(*counts, count{})
				(*counts)[i].Store(int64(n))
			}
		}
		got, want := r.figures(), simulated(results[0])
		require.Equal(t, want.recovery, got.recovery, name)
		require.InDelta(t, want.attempts, got.attempts, 1e-9, name)
		require.InDelta(t, want.success, got.success, 0.001, name)
	}
}

// cells returns cells with fixed numbers.
func cells() []cell {
	a := fixed("backoffhttp", 800, 800, 0, 400, 800, 800, 800, 800, 800)
	b := fixed("none", 800, 800, 0, 0, 0, 0, 0, 0, 0)
	b.Setup.Load = 90
	all := []cell{{run: a}, {run: b}}
	for i := range all {
		s := &all[i].simulation
		s.Seeds, s.Never, s.Amplification = 10, 10, []sim.Figure{{Mean: 1.5}}
		for range 9 {
			s.Series = append(s.Series, sim.Point{Good: sim.Band{Mean: 400, P5: 360, P95: 440}})
		}
	}
	return all
}

func TestThePictureShowsWhatWasMeasured(t *testing.T) {
	svg := draw(cells())
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}
	// The first panel is 192 wide for 9 s, and 80 high for 130 %; its corner is at 40, 96. So the
	// first second is at 50.7, 100 % at 114.5, 50 % at 145.2, and nothing at 176.
	require.Contains(t, svg, `<polyline class="real" points="50.7,114.5 72.0,114.5 93.3,176.0 114.7,145.2 136.0,114.5`)
	require.Contains(t, svg, `<polyline class="model" points="50.7,145.2 72.0,145.2`)
	require.Contains(t, svg, `<polygon class="band" points="50.7,142.2`)
	require.Contains(t, svg, `<rect class="dip" x="82.7" y="96" width="42.7" height="80"/>`)
	require.Contains(t, svg, "recovery 0 s; simulated not in 5 s")
	require.Contains(t, svg, "recovery not in 5 s, nor simulated")
	require.Contains(t, svg, "load 80 % of capacity")
	require.Equal(t, 2, strings.Count(svg, `class="band" points`), "panels")
}

func TestThePageNamesEveryFigure(t *testing.T) {
	text, err := page{Cells: cells(), mod: "x"}.markdown()
	require.NoError(t, err)
	require.Contains(t, text, "| 80 % | backoffhttp.Client | 0 s | not in 5 s | 78.6 % | 0.0 % | 2.00 | 1.50 |\n")
	require.Contains(t, text, "| 90 % | no retries | not in 5 s |")
	require.Contains(t, text, "a machine, 2000-01-01.\n")
	require.Contains(t, text, "used 0.75 processors")
	require.Contains(t, text, "From second\n2 to 4 its slots take 67 ms, and it does 30 % of that.")
	require.Contains(t, text, "A run takes\n9 s at a load of 80 %, and 9 s at a load of 90 %, where")
}

func TestThePageSaysWhatTroublesCost(t *testing.T) {
	var runs []*run
	for _, kind := range troubles {
		r := fixed("none", 400, 200, 400, 400)
		r.Setup.Trouble, r.Setup.Load, r.Setup.From, r.Setup.For = kind, 80, time.Second, 2*time.Second
		runs = append(runs, r)
	}
	require.Contains(t, page{troubled: runs}.Troubles(), "| no retries | 41.7 % | 2.00 | 1.8 s | 3200 |\n")
	svg := drawRestart(runs)
	require.Contains(t, svg, "lost: the calls of 1.8 s")
	require.Equal(t, 1, strings.Count(svg, `class="real" points="88`)+strings.Count(svg, `class="real" points="64`), "panels")
	require.NotContains(t, svg, `class="model"`)
}

func TestANewRunTakesThePlaceOfTheOldOneInTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "runs.json")
	runs, err := load(file)
	require.NoError(t, err)
	require.Empty(t, runs)
	for _, name := range []string{"none", "backoffhttp", "none"} {
		runs = add(runs, fixed(name, 800, int64(len(runs))))
	}
	high := fixed("backoffhttp", 1)
	high.Setup.Load = 90
	runs = add(runs, high)
	require.NoError(t, keep(file, runs))
	again, err := load(file)
	require.NoError(t, err)
	require.Equal(t, runs, again)
	require.Len(t, again, 3)
	require.Equal(t, "backoffhttp", again[0].Client)
	require.EqualValues(t, 2, again[1].Fleet.Good[1].Load())
	require.Equal(t, 90, again[2].Setup.Load)
}

// Only nightly, because the simulations take half a minute, all of the page and
// the picture are compared.
func TestThePageIsWhatTheKeptRunsGive(t *testing.T) {
	runs, err := load("testdata/runs.json")
	require.NoError(t, err)
	if len(runs) == 0 {
		t.Log("nothing has been measured yet")
		return
	}
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/field.md")
	require.NoError(t, err)
	dir := t.TempDir()
	if nightly.On {
		require.NoError(t, write(dir, runs, string(mod)))
		for _, name := range []string{"field.md", "field.svg", "field-restart.svg"} {
			now, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			before, err := os.ReadFile("../../../docs/" + name)
			require.NoError(t, err)
			require.True(t, string(now) == string(before), "%s: make field-page writes it anew", name)
		}
		return
	}
	modelled := 0
	for _, c := range clients {
		if c.model != nil {
			modelled++
		}
	}
	require.Len(t, runs, 2*modelled+len(troubles)*len(clients))
	for _, r := range runs {
		if r.Client == "none" && r.Setup.Trouble == noTrouble {
			require.NoError(t, write(dir, []*run{r}, string(mod)))
			text, err := os.ReadFile(filepath.Join(dir, "field.md"))
			require.NoError(t, err)
			_, row, _ := strings.Cut(string(text), "|---|---|---|---|---|---|---|---|\n")
			row, _, _ = strings.Cut(row, "\n")
			require.Contains(t, string(page), row)
		}
	}
}
