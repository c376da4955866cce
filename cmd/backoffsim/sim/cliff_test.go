package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

// Naive retries recover at a load of 30 % and not of 40 %, and from a dip of
// one second and not of two.
func TestTheCliffIsFound(t *testing.T) {
	s := Dip()
	s.Server.Service = Exponential(nightly.Size(10*ms, ms))
	s.Rate = .8 * s.Server.Capacity()
	cliff, err := FindCliff(s, Naive(), CliffLoad, .2, .8, nightly.Size(.1, .02), Options{Seeds: nightly.Size(1, 5)})
	require.NoError(t, err)
	require.GreaterOrEqual(t, cliff.Safe, .2)
	require.Less(t, cliff.Unsafe, .45)
	require.LessOrEqual(t, cliff.Unsafe-cliff.Safe, nightly.Size(.1, .02))

	cliff, err = FindCliff(s, Naive(), CliffDip, .5, 4, nightly.Size(.5, .1), Options{Seeds: nightly.Size(1, 5)})
	require.NoError(t, err)
	require.GreaterOrEqual(t, cliff.Unsafe, 1.0)
	require.LessOrEqual(t, cliff.Safe, 2.0)
}

func TestWhereThereIsNoCliffNoneIsFound(t *testing.T) {
	short := Dip()
	short.Horizon = 100 * time.Second
	cliff, err := FindCliff(short, Default(), CliffLoad, .5, .8, .1, Options{Seeds: 1})
	require.NoError(t, err)
	require.Equal(t, Cliff{Safe: .8}, cliff)
	cliff, err = FindCliff(short, Naive(), CliffLoad, .6, .8, .1, Options{Seeds: 2})
	require.NoError(t, err)
	require.Equal(t, Cliff{Unsafe: .6}, cliff)

	for want, s := range map[string]Scenario{
		"has no fault":    {Rate: 1, Horizon: time.Second},
		"takes no time":   Chain(1),
		"load of a trace": {Trace: Trace{{Count: 1}}, Server: Server{Service: Exact(1)}, Fault: Fault{For: 1}, Horizon: 2},
	} {
		_, err = FindCliff(s, Naive(), CliffLoad, .1, .2, .1, Options{})
		require.ErrorContains(t, err, want)
	}
	_, err = FindCliff(Dip(), Naive(), CliffLoad, .5, .4, .1, Options{})
	require.ErrorContains(t, err, "from 0.5 to 0.4 within 0.1")
	users, err := ClosedDip(time.Second).at(CliffLoad, .5)
	require.NoError(t, err)
	require.InDelta(t, 500.5, users.Users, .5)
}
