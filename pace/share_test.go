package pace

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
