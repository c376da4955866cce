package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The processes that measure starts are of the test program.
func TestMain(m *testing.M) {
	if os.Getenv(inChild) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// small returns a setup of a few seconds, with the ratios of the page's.
func small() setup {
	s := usual(80)
	s.Slots, s.Queue, s.Ports, s.Processes = 4, 500, 4, 2
	s.From, s.For, s.Horizon = 2*time.Second, time.Second, 4*time.Second
	return s
}

func TestARunCountsEveryCallAndEveryAttempt(t *testing.T) {
	s := small()
	for _, name := range []string{"backoffhttp", "hand"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := measure(s, name)
			require.NoError(t, err)
			calls, good, lost := sum(r.Fleet.Calls), sum(r.Fleet.Good), sum(r.Fleet.Lost)
			require.EqualValues(t, len(s.arrivals()), calls)
			require.LessOrEqual(t, good+lost, calls)
			require.Positive(t, good)
			v := &r.Service
			require.LessOrEqual(t, 0.98*float64(v.Arrived.Load()), sum(r.Fleet.Attempts), "but for those sent as the run ends")
			require.LessOrEqual(t, v.Done.Load()+v.Refused.Load(), v.Arrived.Load())
			require.LessOrEqual(t, good, float64(v.Done.Load()-v.Abandoned.Load()))
			require.Less(t, sum(r.Fleet.Good[2:3]), sum(r.Fleet.Calls[2:3])*0.9, "in the dip")
			require.Positive(t, r.FleetCPU)
			require.Positive(t, r.ServiceCPU)
			require.NotEmpty(t, r.Machine)
			t.Log(r)
		})
	}
}
