package sim

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// A recorder schedules events at random times, and records when they happen. An
// event of kind n schedules n more.
type recorder struct {
	*engine
	scheduled, handled []time.Duration
	left               int // events that may still be scheduled
}

func (d *recorder) handle(kind int) {
	d.handled = append(d.handled, d.now)
	for range kind {
		d.schedule()
	}
}

func (d *recorder) schedule() {
	if d.left--; d.left < 0 {
		return
	}
	in := time.Duration(d.rand.IntN(1000)) - 100
	d.scheduled = append(d.scheduled, d.now+max(0, in))
	d.after(in, d, d.rand.IntN(3))
}

func TestEverythingHappensOnceAndInTheOrderOfTime(t *testing.T) {
	for seed := range uint64(50) {
		d := &recorder{engine: newEngine(seed), left: 3000}
		require.NoError(t, d.run(time.Hour, func() {
			for range 50 {
				d.schedule()
			}
		}))
		require.True(t, slices.IsSorted(d.handled))
		slices.Sort(d.scheduled)
		require.Equal(t, d.scheduled, d.handled)
	}
}

func TestNothingHappensBeyondTheHorizonAndTheClockIsGivenBack(t *testing.T) {
	d := &recorder{engine: newEngine(1)}
	_ = d.run(time.Second, func() {
		d.after(time.Second, d, 0)
		d.after(time.Second+1, d, 0)
		require.Equal(t, epoch, clock.Now())
	})
	require.Equal(t, []time.Duration{time.Second}, d.handled)
	require.Nil(t, clock.Source)
}

func TestOneSeedGivesTheSameBytes(t *testing.T) {
	s := Dip()
	s.Horizon, s.Fault.From, s.Fault.For = 6*time.Second, 2*time.Second, 3*time.Second
	clients := append(References("dip")[12:18], libraryClients()...)
	text := func(first uint64) string {
		r, err := Compare(s, clients, Options{Seeds: 1, First: first})
		require.NoError(t, err)
		b, err := json.Marshal(r)
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, text(1), text(1))
	require.NotEqual(t, text(1), text(2))
}

func TestAllClientsOfASeedMeetTheSameCalls(t *testing.T) {
	s := Dip()
	s.Horizon, s.Fault.From = 15*time.Second, 2*time.Second
	results := run(t, s, 2, References("dip")[:8]...)
	for _, r := range results[1:] {
		for i, p := range r.Series {
			require.Equal(t, results[0].Series[i].Calls, p.Calls, "%s, second %d", r.Client, i)
		}
	}
}

func TestCallsThatAreRepeatedWithoutEndEndTheSimulation(t *testing.T) {
	defer func(n, m int) { maxInSpan, maxEvents = n, m }(maxInSpan, maxEvents)
	maxInSpan = 100_000
	for wait, most := range map[time.Duration]int{0: math.MaxInt, 1: math.MaxInt, time.Microsecond: 3000} {
		maxEvents = most
		s := Scenario{Every: time.Second, Horizon: 3 * time.Millisecond, Fault: Fault{For: 2 * time.Millisecond, Down: true}}
		endless := NewClient("endless", backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(wait), Jitter: backoff.NoJitter}, nil, nil)
		_, err := Compare(s, []Client{endless}, Options{Seeds: 1})
		require.ErrorIs(t, err, errEndless)
		require.ErrorContains(t, err, "endless: ")
	}
	var c peakCounter
	for now := range 10 * time.Millisecond / 10 {
		c.add(now)
	}
	require.Equal(t, 1_000_000, c.most)
	require.Equal(t, 1000, c.recent.size, "what is counted takes little memory")
}

func TestThePeakIsTheMostArrivalsInAnySpanOf100Milliseconds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		var c peakCounter
		var all []time.Duration
		now := time.Duration(0)
		for range 500 {
			now += time.Duration(r.ExpFloat64() * float64(3*time.Millisecond))
			all = append(all, now)
			c.add(now)
		}
		most := 0
		for i, end := range all {
			n := 0
			for _, at := range all[:i+1] {
				if end-at < 100*time.Millisecond {
					n++
				}
			}
			most = max(most, n)
		}
		require.Equal(t, most, c.most)
	}
}

func TestQuantilesAreWithinAPercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var l latencyHistogram
	require.Zero(t, l.quantile(0.5))
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(r.ExpFloat64() * float64(time.Second))
		all = append(all, d)
		l.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, .01, .5, .9, .99, .999} {
		require.InEpsilon(t, all[int(q*float64(len(all)))].Seconds(), l.quantile(q).Seconds(), .01, "at %v", q)
	}
	require.InEpsilon(t, all[len(all)-1].Seconds(), l.quantile(1).Seconds(), .01)
	l.add(0)
	l.add(forever)
	require.Equal(t, forever>>57, l.quantile(1)>>57)
}
