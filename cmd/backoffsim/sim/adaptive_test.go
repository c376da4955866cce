package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
)

// The tests of this file hold what docs/results/simulation.md says of adaptive.Limit.

func TestAnAdaptiveLimitServesMoreOfADip(t *testing.T) {
	for _, processes := range nightly.Size([]int{20}, []int{1, 20, 200}) {
		s := Dip()
		s.Processes, s.Deadline = processes, 5*time.Second
		r := run(t, s, nightly.Size(1, 3), named(t, References("dip"), "Policy + RetryBudget"), named(t, References("dip"), "RetryBudget + Adaptive"),
			named(t, References("dip"), "Adaptive"))
		for _, limited := range r[1:] {
			require.Greater(t, limited.Success.Mean, r[0].Success.Mean+.05, "%s, %d processes", limited.Client, processes)
			require.Less(t, limited.Wasted.Mean, r[0].Wasted.Mean/3, "%s, %d processes", limited.Client, processes)
			require.Less(t, limited.Recovery.Mean, 3.0, "%s, %d processes", limited.Client, processes)
		}
	}
}

func TestWhereNothingIsSlowerAnAdaptiveLimitDoesNothing(t *testing.T) {
	s := Dip()
	s.Rate, s.Fault = 300, Fault{From: s.Fault.From, For: s.Fault.For, Errors: 0.3}
	r := run(t, s, 1, NewClient("", backoff.Policy{}, nil, nil), NewClient("", backoff.Policy{}, newAdaptive, nil))
	require.Equal(t, r[0].Attempts, r[1].Attempts)
	require.Equal(t, r[0].Success, r[1].Success)
}
