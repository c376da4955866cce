package pace

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

// verdictOf returns what a trial says if so many answers come in a second, of
// which a share is refused, after a share of believed was refused before.
func verdictOf(r *rand.Rand, perSecond, believed, share float64) verdict {
	var t trial
	t.begin(0, perSecond/trialRate, believed)
	for n := 1.; ; n++ {
		if v := t.observe(time.Duration(n/perSecond*1e9), r.Float64() < share); v != undecided {
			return v
		}
	}
}

func TestATrialBlamesTheRateIfRefusalsStopWithIt(t *testing.T) {
	for _, believed := range []float64{.05, .1, .3, .5} {
		require.Equal(t, blameRate, verdictOf(rand.New(rand.NewPCG(1, 1)), 200, believed, 0))
	}
}

// Four refusals tell a share badly.
func TestATrialIsSeldomWrongAboutAShareThatStays(t *testing.T) {
	for _, c := range []struct{ believed, share float64 }{{.05, .05}, {.1, .1}, {.3, .1}, {.5, .1}, {.06, .1}, {.1, .05}} {
		r, wrong := rand.New(rand.NewPCG(2, 2)), 0
		for range 2000 {
			if verdictOf(r, 200, c.believed, c.share) == blameRate {
				wrong++
			}
		}
		require.LessOrEqual(t, wrong, 2000*20/100, "%v of %v", c.share, c.believed)
	}
}

func TestATrialGivesUpAndRemembersWhatItHeard(t *testing.T) {
	var tr trial
	tr.begin(0, 10, .1)
	require.Equal(t, undecided, tr.observe(time.Second, true))
	require.Equal(t, timedOut, tr.observe(trialTime, false))
	require.False(t, tr.running)
	tr.begin(tr.next, 10, .1)
	require.Equal(t, undecided, tr.observe(tr.next, false))
	require.Equal(t, undecided, tr.observe(tr.next, true), "one refusal proves nothing")
	require.Equal(t, blameCalls, tr.observe(tr.next, true))
}

func TestTrialsThatBlameTheRateComeMoreAndMoreSeldom(t *testing.T) {
	var tr trial
	var gaps []time.Duration
	now := time.Duration(0)
	for range 8 {
		tr.begin(now, 1000, .1)
		for tr.observe(now, false) == undecided {
		}
		gaps, now = append(gaps, (tr.next-now)/time.Second), tr.next
	}
	require.Equal(t, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}, gaps)
}

func TestAToleranceCountsTwiceAsLongEachTimeItIsConfirmed(t *testing.T) {
	var tol tolerance
	require.False(t, tol.forgives(0), "nothing was learned")
	now := time.Duration(0)
	for _, seconds := range []time.Duration{30, 60, 120, 240, 480, 480} {
		tol.learn(now)
		require.Equal(t, now+seconds*time.Second, tol.until)
		now = tol.until
		require.False(t, tol.active(now))
	}
	tol.learn(now + time.Hour)
	require.Equal(t, now+time.Hour+30*time.Second, tol.until, "it was too long ago")
}

func TestAToleranceForgivesOneRefusalForEightAnswers(t *testing.T) {
	var tol tolerance
	tol.learn(0)
	for range toleranceCredit {
		require.True(t, tol.forgives(0))
		tol.odds = 0 // they do not come together
	}
	require.False(t, tol.forgives(0))
	tol.earn(7)
	require.False(t, tol.forgives(0))
	tol.earn(1)
	require.True(t, tol.forgives(0))
	tol.earn(1e6)
	require.LessOrEqual(t, tol.credit, float64(toleranceCredit), "and no more than ten of the past")
}

// A limit refuses many in a row, though few in the long run if each of them waits
// as long as the service asks for.
func TestRefusalsThatComeTogetherEndTheTolerance(t *testing.T) {
	var tol tolerance
	tol.learn(0)
	forgiven := 0
	for tol.active(time.Second) && forgiven < 100 {
		tol.earn(1000)
		for range 3 { // by chance
			require.True(t, tol.forgives(time.Second))
		}
		tol.earn(1000)
		for tol.forgives(time.Second) {
			forgiven++
		}
	}
	require.Equal(t, 7, forgiven)
	require.Zero(t, tol)

	r := rand.New(rand.NewPCG(1, 2))
	tol.learn(0)
	for n := range 1_000_000 { // refused by chance, as often as is tolerable
		if r.Float64() < tolerable/(1+tolerable) {
			tol.forgives(0)
		} else {
			tol.earn(1)
		}
		require.True(t, tol.active(0), "after %d responses", n)
	}
}

func TestACallMeterKnowsASteadyRate(t *testing.T) {
	for _, want := range []float64{0.01, 1, 30, 1000, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			var m callMeter
			for range max(int(3*want), 300) {
				time.Sleep(time.Duration(r.ExpFloat64() / want * 1e9))
				m.add()
			}
			require.InDelta(t, want, m.rate(), want*0.7, "of at least 8 calls")
			if want >= 1000 {
				require.InDelta(t, want, m.rate(), want*0.2)
			}
		})
	}
}

func TestACallMeterSeesABurstAfterADayOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m callMeter
		for range 10 {
			m.add()
		}
		time.Sleep(24 * time.Hour)
		require.Less(t, m.rate(), 0.001)
		for range 100 {
			m.add()
			time.Sleep(time.Millisecond)
		}
		require.GreaterOrEqual(t, m.rate(), 40., "the mark before it may be old")
		time.Sleep(time.Minute)
		require.Less(t, m.rate(), 2., "and its end")
	})
}

func TestAYoungCallMeterCountsItsFirstSecondAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m callMeter
		require.Equal(t, 1., m.rate(), "before the first call")
		m.add()
		require.Equal(t, 1., m.rate())
		m.add()
		m.add()
		require.Equal(t, 3., m.rate())
		time.Sleep(10 * time.Second)
		require.Equal(t, 0.3, m.rate())
	})
}

func TestACallMeterCountsBeyondItsLastMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m callMeter
		m.add()
		for _, count := range []uint64{1<<33 - 1, 1<<63 - 1} {
			m.count.Store(count)
			for range 800 {
				m.add()
				time.Sleep(10 * time.Millisecond)
			}
			require.InDelta(t, 100, m.rate(), 30)
		}
	})
}

// A lineWalk is a line beside a model of it that keeps the numbers themselves.
type lineWalk struct {
	line
	waiting [3][]uint64 // by rank, oldest first
	turned  []uint64
	earned  float64 // turns, of which none is saved beyond the first
	last    uint64  // that joined as a first attempt
	spare   int     // turns that are for the newest
}

const walkRate = 5

func TestALineLosesNoTurnAndGivesNoneTwice(t *testing.T) {
	for seed := range nightly.Size[uint64](50, 200) {
		walkLine(t, rand.New(rand.NewPCG(seed, 1)), 0)
	}
}

func TestALineGoesOnWhenItsNumbersBeginAgain(t *testing.T) {
	for seed := range uint64(20) {
		walkLine(t, rand.New(rand.NewPCG(seed, 2)), 1<<countBits-100)
	}
}

func walkLine(t *testing.T, r *rand.Rand, given uint64) {
	var w lineWalk
	for i := range w.ranks {
		w.ranks[i] = rank{given: given, cleared: given}
	}
	for range 700 {
		switch rank := r.IntN(3); r.IntN(6) {
		case 0, 1:
			w.join(t, rank, r.IntN(3) > 0)
		case 2:
			more := r.Float64() * 3
			w.turns, w.earned = w.turns+more, w.earned+more
			w.serve(walkRate)
		case 3: // leaves the line
			if n := len(w.waiting[rank]); n > 0 {
				i := r.IntN(n)
				w.leave(w.waiting[rank][i], walkRate)
				w.waiting[rank] = slices.Delete(w.waiting[rank], i, i+1)
			}
		case 4: // gives its turn back
			if n := len(w.turned); n > 0 {
				w.leave(w.turned[n-1], walkRate)
				w.turned, w.earned = w.turned[:n-1], w.earned+1
			}
		case 5:
			if w.line.waiting() > 0 {
				w.late++
				w.spare++
			}
		}
		w.check(t)
	}
}

func (w *lineWalk) join(t *testing.T, rank int, first bool) {
	number := w.line.join(rank, first, place{}, walkRate)
	require.NotContains(t, slices.Concat(w.waiting[:]...), number)
	w.waiting[rank] = append(w.waiting[rank], number)
	if first {
		w.last = number
	}
}

// check finds out who had a turn since, and who may have had it.
func (w *lineWalk) check(t *testing.T) {
	for rank := 2; rank >= 0; rank-- {
		had := func(number uint64) bool {
			_, p := w.position(number)
			return p == nil
		}
		for i, number := range w.waiting[rank] {
			if had(number) {
				older := slices.ContainsFunc(w.waiting[rank][:i], func(n uint64) bool { return !had(n) })
				if older {
					w.spare--
					require.Equal(t, w.last, number, "only the newest overtakes")
					require.GreaterOrEqual(t, w.spare, 0, "it does for a call whose time is over")
				}
				w.turned = append(w.turned, number)
				w.earned--
			}
		}
		w.waiting[rank] = slices.DeleteFunc(w.waiting[rank], had)
		for lower := range rank {
			require.False(t, len(w.waiting[rank]) > 0 && slices.ContainsFunc(w.waiting[lower], had), "a lower rank overtakes")
		}
	}
	waiting := slices.Concat(w.waiting[:]...)
	if len(waiting) == 0 {
		w.spare = 0
	}
	require.Equal(t, len(waiting), w.line.waiting())
	require.GreaterOrEqual(t, w.earned, -1e-9, "more turns than there were")
	if len(waiting) > 0 {
		require.Less(t, w.turns, 1., "a turn that nobody gets")
		require.InDelta(t, w.earned, w.turns, 1e-9, "turns are lost")
	} else {
		w.earned = min(w.earned, saved(walkRate))
	}
}

func TestANumberThatWasNeverGivenHasNoPlace(t *testing.T) {
	var l line
	l.ranks[0] = rank{given: 10, places: make([]place, 3)}
	for _, number := range []uint64{0, 11, 1 << 31, 1 << 32, 1<<32 + 9, 1<<countBits - 1, 1<<countBits | 9} {
		_, p := l.position(number)
		require.Nil(t, p, "%d", number)
	}
	before, p := l.position(10)
	require.Equal(t, 2, before)
	require.NotNil(t, p)
}
