package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
	"github.com/gobackoff/backoff/internal/nightly"
)

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
		for _, name := range []string{"field.md", "field.svg"} {
			now, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			before, err := os.ReadFile("../../../docs/" + name)
			require.NoError(t, err)
			require.True(t, string(now) == string(before), "%s: make field-page writes it anew", name)
		}
		return
	}
	require.Len(t, runs, 2*len(clients))
	for _, r := range runs {
		if r.Client == "none" {
			require.NoError(t, write(dir, []*run{r}, string(mod)))
			text, err := os.ReadFile(filepath.Join(dir, "field.md"))
			require.NoError(t, err)
			_, row, _ := strings.Cut(string(text), "|---|---|---|---|---|---|---|---|\n")
			row, _, _ = strings.Cut(row, "\n")
			require.Contains(t, string(page), row)
		}
	}
}
