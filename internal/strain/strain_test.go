package strain

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

// A line is a service that answers with latencies of a distribution, to a
// caller with so many calls a second.
type line struct {
	Gauge
	now    time.Duration
	random *rand.Rand
}

func newLine(seed uint64) *line { return &line{random: rand.New(rand.NewPCG(seed, 1))} }

// call makes n calls, and returns how many of them saw strain. A share of them
// hangs for a second.
func (l *line) call(n int, rate float64, latency func(*rand.Rand) float64, hung float64) (strained int) {
	for range n {
		l.now += time.Duration(l.random.ExpFloat64() / rate * 1e9)
		took, late := time.Duration(latency(l.random)*1e6), l.random.Float64() < hung
		if late {
			took = time.Second
		}
		if l.Add(l.now, took, late) {
			strained++
		}
	}
	return strained
}

// exponential and logNormal return latencies in milliseconds.
func exponential(mean float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return mean * r.ExpFloat64() }
}

func logNormal(median, sigma float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return median * math.Exp(sigma*r.NormFloat64()) }
}

var rates = []float64{0.2, 1, 10, 40, 1000}

func TestAServiceThatIsMuchSlowerIsUnderStrain(t *testing.T) {
	for _, rate := range rates {
		for seed := range uint64(5) {
			l := newLine(seed)
			l.call(max(200, int(20*rate)), rate, exponential(20), 0)
			began := l.now
			for n := 0; l.call(1, rate, exponential(400), 0) == 0; n++ {
				require.Less(t, l.now-began, max(5*time.Second, time.Duration(7/rate*1e9)), "%v calls/s", rate)
			}
			room, mild := l.Room(l.now)
			require.Zero(t, room)
			require.Equal(t, 1., mild, "none has timed out")
		}
	}
}

func TestAServiceThatIsTwentyFiveTimesSlowerIsUnderHeavyStrain(t *testing.T) {
	for _, slower := range []float64{10, 40} {
		l := newLine(1)
		l.call(1000, 10, exponential(20), 0)
		require.Positive(t, l.call(100, 10, exponential(20*slower), 0))
		room, mild := l.Room(l.now)
		require.Zero(t, room)
		require.Equal(t, slower < 25, mild == 1, "slower by %v: none has timed out", slower)
	}
}

// A process need not run for long before it feels an overload.
func TestStrainIsFeltAfterAFewSamples(t *testing.T) {
	for _, calls := range []int{15, 25, 40} {
		l := newLine(1)
		require.Zero(t, l.call(calls, 1, exponential(20), 0))
		require.Positive(t, l.call(15, 1, exponential(400), 0), "after %d calls", calls)
	}
}

// One hung replica is no overload, nor is a service whose latency is spread, nor
// one of two kinds of requests.
func TestWhatAServiceAlwaysDoesIsNoStrain(t *testing.T) {
	kinds := func(r *rand.Rand) float64 { return []float64{5, 500}[r.IntN(2)] }
	for _, rate := range rates {
		for name, c := range map[string]struct {
			latency func(*rand.Rand) float64
			hung    float64
			most    float64
		}{
			"exact":       {func(*rand.Rand) float64 { return 7 }, 0, 0},
			"exponential": {exponential(20), 0, 0.01},
			"sigma 1":     {logNormal(5, 1), 0, 0.01},
			"sigma 2":     {logNormal(5, 2), 0, 0.05},
			"two kinds":   {kinds, 0, 0.32},
			"10 % hung":   {exponential(20), 0.1, 0.04},
			"20 % hung":   {exponential(20), 0.2, 0.1},
		} {
			const calls = 20_000
			strained := newLine(3).call(calls, rate, c.latency, c.hung)
			if rate < 1 && c.most > 0 {
				c.most += 0.1 // two or three samples are all there is of the present
			}
			require.LessOrEqual(t, float64(strained)/calls, c.most, "%s, %v calls/s", name, rate)
		}
	}
}

// What tells an overload from a replica that begins to hang is that there those
// attempts are slow, too, that succeed.
func TestAReplicaThatBeginsToHangIsNoStrain(t *testing.T) {
	nightly.Long(t)
	for _, rate := range []float64{10, 40, 100, 1000} {
		for _, hung := range []float64{0.1, 0.2, 0.3} {
			strained := 0
			for seed := range uint64(5) {
				l := newLine(seed)
				l.call(int(300*rate), rate, exponential(20), 0)
				strained += l.call(int(60*rate), rate, exponential(20), hung)
			}
			require.LessOrEqual(t, float64(strained)/(5*60*rate), 0.05, "%v calls/s, %v hang", rate, hung)
		}
		l := newLine(1)
		l.call(int(300*rate), rate, exponential(20), 0)
		require.Positive(t, l.call(int(10*rate), rate, exponential(60), 0.3), "%v calls/s, the others slower by three", rate)
	}
}

func TestTheLogarithmsAreThoseOfWhatTheCommentsSay(t *testing.T) {
	for factor, logarithm := range map[float64]float64{2.5: least, 3: hung, 5: most, 25: heavy, 100: top} {
		require.InDelta(t, math.Log(factor), logarithm, 1e-15)
	}
}

func TestStrainIsForgottenEvenly(t *testing.T) {
	var g Gauge
	room, mild := g.Room(0)
	require.Equal(t, [2]float64{1, 1}, [2]float64{room, mild}, "there was none")
	for n := range 100 {
		require.False(t, g.Add(time.Duration(n)*time.Second, 10*time.Millisecond, false))
	}
	now := 100 * time.Second
	for !g.Add(now, 0, true) {
		now += time.Second
	}
	for part, at := range map[float64]time.Duration{0: 0, 0.2: pause / 5, 0.5: pause / 2, 1: pause} {
		room, mild = g.Room(now + at)
		require.InDelta(t, part, room, 1e-9)
		require.InDelta(t, part, mild, 1e-9, "all have timed out")
	}
	room, _ = g.Room(math.MaxInt64)
	require.Equal(t, 1., room)
}

// What lasts becomes usual, but not within the time of an overload.
func TestTheUsualLatencyFollowsSlowlyUpAndFastDown(t *testing.T) {
	l := newLine(1)
	l.call(600, 1, exponential(20), 0)
	usual := l.usual
	l.call(15*60, 1, exponential(400), 0)
	require.Less(t, l.usual-usual, math.Log(20)*0.75, "after 15 minutes")
	require.Greater(t, l.call(60, 1, exponential(400), 0), 0)
	l.call(60*60, 1, exponential(400), 0)
	require.Zero(t, l.call(60, 1, exponential(400), 0), "after more than an hour")
	l.call(5*60, 1, exponential(20), 0)
	require.InDelta(t, usual, l.usual, 0.5, "after five minutes")
}

// A burst is one sample in time, however many calls it has.
func TestABurstDoesNotOutvoteASecond(t *testing.T) {
	l := newLine(1)
	l.call(4000, 40, exponential(20), 0)
	for range 10_000 {
		require.False(t, l.Add(l.now, time.Second, false))
	}
}

func TestTheFirstSampleMayBeATimeout(t *testing.T) {
	var g Gauge
	require.False(t, g.Add(0, time.Second, true))
	require.InDelta(t, 0, g.usual, 0.01, "one second")
	for n := range 200 {
		require.False(t, g.Add(time.Duration(n)*100*time.Millisecond, 20*time.Millisecond, false))
	}
	require.InDelta(t, math.Log(0.021), g.usual, 0.5)
}

func TestEverySampleIsFinite(t *testing.T) {
	var g Gauge
	random := rand.New(rand.NewPCG(1, 1))
	var now time.Duration
	for range 10_000 {
		now += time.Duration(random.Int64N(1 << random.IntN(50)))
		took := time.Duration(random.Int64N(math.MaxInt64 - int64(slack)))
		g.Add(now, took>>random.IntN(62), random.IntN(3) == 0)
		for _, x := range []float64{g.present, g.usual, g.spread, g.variance, g.timeouts} {
			require.False(t, math.IsNaN(x) || math.IsInf(x, 0))
		}
	}
}

// A caller may say anything.
func TestNoSampleEndsTheMeasurement(t *testing.T) {
	g, now := new(Gauge), time.Duration(0)
	add := func(n int, took time.Duration) {
		for range n {
			now += 100 * time.Millisecond
			g.Add(now, took, false)
		}
	}
	add(1, math.MaxInt64)
	add(600, 5*time.Millisecond)
	add(100, time.Second)
	room, _ := g.Room(now)
	require.Less(t, room, 1.)
}

// calls are made at a rate, and a Sampler chooses some.
type calls struct {
	Sampler
	now   time.Duration
	count uint64
}

// drive makes calls for a time from now on, and returns how many were chosen.
func (c *calls) drive(rate float64, for_ time.Duration) (chosen int) {
	for range int(rate * for_.Seconds()) {
		c.now += time.Duration(1e9 / rate)
		if c.Chosen(c.count) {
			chosen++
			c.Sampled(c.now, func() uint64 { return c.count })
		}
		c.count++
	}
	return chosen
}

func TestAboutFortySamplesASecondAreChosen(t *testing.T) {
	for _, rate := range []float64{0.1, 1, 10, 39} {
		var s calls
		require.Equal(t, int(rate*1000), s.drive(rate, 1000*time.Second), "all of %v calls/s", rate)
	}
	for _, rate := range []float64{100, 1000, 30_000, 1_000_000} {
		var s calls
		require.LessOrEqual(t, s.drive(rate, time.Second), 1000, "the first second of %v calls/s", rate)
		require.InDelta(t, 40*5, s.drive(rate, 5*time.Second), 40, "%v calls/s", rate)
	}
}

func TestASamplerSeesASlowerRateSoon(t *testing.T) {
	var s calls
	s.drive(1000, 10*time.Second)
	s.drive(10, 10*time.Second)
	require.Equal(t, 100, s.drive(10, 10*time.Second))
}

// A job that begins with a burst is not blind after it.
func TestABurstHidesLittleOfWhatFollows(t *testing.T) {
	var s calls
	s.drive(1e6, time.Millisecond)
	require.Greater(t, s.drive(10, 20*time.Second), 150)
}

// Requests of two kinds may alternate.
func TestASamplerChoosesFromAllKinds(t *testing.T) {
	var s calls
	s.drive(1000, 10*time.Second)
	for _, period := range []uint64{2, 3, 4, 8, 10, 16} {
		kinds := make([]int, period)
		for n := range uint64(100_000) {
			if s.Chosen(n) {
				kinds[n%period]++
			}
		}
		for _, n := range kinds {
			require.InEpsilon(t, 4000/float64(period), n, 0.3, "every %d", period)
		}
	}
}

// kinds returns the latencies of quick calls and slow ones.
func kinds(slow, share float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		if r.Float64() < share {
			return slow
		}
		return 5 + r.Float64()
	}
}

// strainedFor makes calls for a time, and returns the part of it in which there
// is less than all room.
func (l *line) strainedFor(seconds int, rate float64, latency func(*rand.Rand) float64) float64 {
	strained := 0
	for range seconds {
		l.call(int(rate), rate, latency, 0)
		if room, _ := l.Room(l.now); room < 1 {
			strained++
		}
	}
	return float64(strained) / float64(seconds)
}

// An eighth is what chance may do; without a look at the quickest it is most of
// the time.
func TestMoreSlowCallsAmongQuickOnesAreNoStrain(t *testing.T) {
	for _, rate := range []float64{2, 10, 40} {
		for _, slow := range []float64{500, 2000, 20_000} {
			sum := 0.
			for seed := range uint64(5) {
				l := newLine(seed)
				l.call(int(300*rate), rate, kinds(slow, 0.1), 0)
				sum += l.strainedFor(300, rate, kinds(slow, 0.5)) / 5
			}
			require.LessOrEqual(t, sum, 0.125, "%v calls/s, of 5 and %v ms", rate, slow)
		}
	}
}

// Slow calls end later than the quick ones that began with them.
func TestSlowCallsThatBeginToEndAreNoStrain(t *testing.T) {
	for _, rate := range []float64{10, 40} {
		l := newLine(1)
		l.call(int(2*rate), rate, kinds(20_000, 0), 0)
		l.now = 20 * time.Second
		l.call(int(100*rate), rate, kinds(20_000, 0.9), 0)
		require.LessOrEqual(t, l.strainedFor(300, rate, kinds(20_000, 0.9)), 0.125, "%v calls/s", rate)
	}
}

// In an overload all calls wait for each other, whatever kinds there are.
func TestKindsThatAllGetSlowerAreUnderStrain(t *testing.T) {
	for _, rate := range []float64{2, 10, 40} {
		for _, share := range []float64{0.1, 0.5} {
			l := newLine(1)
			l.call(int(300*rate), rate, kinds(500, share), 0)
			waits := func(r *rand.Rand) float64 { return 300 + kinds(500, share)(r) }
			require.Positive(t, l.call(int(15*rate), rate, waits, 0), "%v calls/s, %v slow", rate, share)
		}
	}
}

// Slower compares those that did not time out, and does not move with a mixture.
func TestSlowerTellsHowManyTimesAsLongAsUsual(t *testing.T) {
	require.Equal(t, 1., new(Gauge).Slower())
	for _, rate := range []float64{2, 10, 100} {
		l := newLine(1)
		l.call(int(300*rate), rate, exponential(20), 0.1)
		require.InDelta(t, 1, l.Slower(), 0.5, "%v calls/s", rate)
		require.InDelta(t, 0.1, l.TimedOut(), 0.1, "%v calls/s", rate)
		l.call(int(30*rate), rate, exponential(80), 0.3)
		require.InDelta(t, 3.5, l.Slower(), 2, "%v calls/s", rate)
		require.InDelta(t, 0.3, l.TimedOut(), 0.25, "%v calls/s", rate)

		l = newLine(1)
		l.call(int(300*rate), rate, kinds(2000, 0.1), 0)
		l.call(int(300*rate), rate, kinds(2000, 0.5), 0)
		require.Less(t, l.Slower(), 2.5, "%v calls/s", rate)
	}
}
