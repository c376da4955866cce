package adaptive

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A drill drives a size. Attempts end one after the other, 10 ms apart.
type drill struct {
	size
	now time.Duration
}

// begun returns a trial with so many attempts running.
func begun(running int) *drill {
	d := &drill{now: time.Minute}
	d.begin(d.now, running)
	return d
}

// ends ends attempts that took so many times the usual 10 ms, until there is no limit. A
// share of 1 in late runs out of time. Others wait.
func (d *drill) ends(n int, above float64, late int) {
	for i := range n {
		d.now += 10 * time.Millisecond
		if d.bound = d.now; d.phase == off {
			return
		}
		d.learn(d.now, min(d.now-d.since, time.Duration(above*1e7)), above, late > 0 && i%late == 0)
	}
}

// proven returns a limit after a trial that found an overload.
func proven(running int) *drill {
	d := begun(running)
	d.ends(trialRuns, 20, 0)
	d.ends(trialRuns, 5, 0)
	return d
}

func TestATrialLetsHalfAndThenAnEighthOfTheAttemptsRun(t *testing.T) {
	d := begun(80)
	require.Equal(t, 40., d.most())
	d.ends(trialRuns-1, 20, 0)
	require.Equal(t, 40., d.most())
	d.ends(1, 20, 0)
	require.Equal(t, 10., d.most())
	d.ends(trialRuns, 5, 0)
	require.Equal(t, proved, d.phase)
	require.Equal(t, 10., d.most())
}

func TestThereIsNoTrialOfAFewAttempts(t *testing.T) {
	require.Equal(t, off, begun(fewest-1).phase)
	require.Equal(t, first, begun(fewest).phase)
}

// The times between trials double, up to 16 minutes.
func TestATrialThatMakesNothingQuickerEndsTheLimit(t *testing.T) {
	d := begun(80)
	for gap := firstGap; gap <= 2*mostGap; gap *= 2 {
		d.ends(2*trialRuns+2*int(trialTime/(10*time.Millisecond)), 20, 0)
		require.Equal(t, off, d.phase)
		require.Greater(t, d.most(), 1e300)
		require.InDelta(t, min(gap, mostGap), d.next-d.now, 1e7)
		d.begin(d.next-1, 80)
		require.Equal(t, off, d.phase, "too early")
		d.now = d.next
		d.begin(d.now, 80)
		require.Equal(t, first, d.phase)
	}
}

// The first part of the trial begins anew meanwhile, whatever the few others say.
func TestNothingIsJudgedWhileMostAttemptsRunOutOfTime(t *testing.T) {
	d := begun(640)
	for _, want := range []float64{160, 80, 40} {
		d.ends(trialRuns, 100, 1)
		require.Equal(t, first, d.phase)
		require.Equal(t, want, d.most(), "the service has more than it can do")
	}
	d.ends(trialRuns, 40, 0)
	require.Equal(t, second, d.phase)
	d.ends(trialRuns, 40, 1)
	require.Equal(t, second, d.phase)
	d.ends(trialRuns, 10, 0)
	require.Equal(t, proved, d.phase)
}

func TestAttemptsThatWereSentBeforeAChangeSayNothing(t *testing.T) {
	d := begun(80)
	for range 100 {
		d.now += time.Millisecond
		d.bound = d.now
		d.learn(d.now, d.now-d.since+1, 20, false)
	}
	require.Zero(t, d.runs)
}

func TestTheLimitFollowsTheLatency(t *testing.T) {
	for name, c := range map[string]struct {
		above float64
		late  int
		want  float64 // of 10
	}{
		"quick":                      {1.5, 0, 10.5},
		"as it should be":            {4, 0, 10},
		"slow":                       {7, 0, 8},
		"much slower":                {12, 0, 7.07},
		"very slow":                  {500, 0, 5},
		"quick, and some time out":   {1.5, 5, 10.5},
		"slower, and some time out":  {4, 5, 8},
		"quick, but most time out":   {1.5, 1, 8},
		"as it should be, once late": {4, 100, 8},
	} {
		d := proven(80)
		d.ends(round, c.above, c.late)
		require.InDelta(t, c.want, d.most(), 0.01, name)
	}
}

func TestALimitDoesNotGrowThatKeepsNobodyBack(t *testing.T) {
	d := proven(80)
	d.bound = d.since - 1
	for range round {
		d.now += 10 * time.Millisecond
		d.learn(d.now, 1, 1, false)
	}
	require.Equal(t, 10., d.most())
}

func TestFiveSecondsInWhichNoAttemptWaitsEndTheLimit(t *testing.T) {
	d := proven(80)
	d.learn(d.bound+unused, 1, 1, false)
	require.Equal(t, proved, d.phase)
	d.learn(d.bound+unused+1, 1, 1, false)
	require.Equal(t, off, d.phase)
	d.begin(d.bound+unused+1, 80)
	require.Equal(t, first, d.phase, "it was of use")
}

// A service that does not become quicker is overloaded by others, or is only slower.
func TestALimitThatIsOfNoUseEnds(t *testing.T) {
	d := proven(80)
	d.ends(1000, 50, 0)
	require.Equal(t, off, d.phase)
	require.Equal(t, d.gap, firstGap)

	d = proven(80)
	d.ends(1000, 20, 3)
	require.Equal(t, off, d.phase)
}

func TestBelowOneAnAttemptRestsAfterTheOneBefore(t *testing.T) {
	d := begun(fewest)
	require.True(t, d.admits(1, d.most(), d.now))
	require.False(t, d.admits(2, d.most(), d.now))
	d.ends(trialRuns, 50, 0)
	require.Equal(t, fewest/8., d.most())
	d.now += time.Minute
	d.bound = d.now
	d.learn(d.now, 30*time.Millisecond, 3, false)
	require.False(t, d.admits(0, d.most(), d.now+30*time.Millisecond-1))
	require.True(t, d.admits(0, d.most(), d.now+30*time.Millisecond))
	require.False(t, d.admits(1, d.most(), d.now+30*time.Millisecond))

	d.learn(d.now, 10*time.Minute, 3, false)
	require.True(t, d.admits(0, d.most(), d.now+mostRest), "one that hung holds nobody back for long")
}

func TestAServiceThatThrottlesNeedsNoTrial(t *testing.T) {
	d := proven(80)
	d.suspend(d.now + time.Minute)
	require.Equal(t, off, d.phase)
	d.suspend(d.now + time.Second)
	d.begin(d.now+time.Minute-1, 80)
	require.Equal(t, off, d.phase)
	d.begin(d.now+time.Minute, 80)
	require.Equal(t, first, d.phase)
}

// Fewer attempts of two kinds, some of them much quicker, may seem quicker by chance.
func TestATrialInWhichMuchLessIsAnsweredFindsNoOverload(t *testing.T) {
	for gap, want := range map[time.Duration]phase{10 * time.Millisecond: proved, 19 * time.Millisecond: proved, 50 * time.Millisecond: off} {
		d := begun(80)
		d.ends(trialRuns, 20, 0)
		for range trialRuns {
			d.now += gap - 10*time.Millisecond
			d.ends(1, 5, 0)
		}
		require.Equal(t, want, d.phase, "an answer every %v", gap)
	}
}

func TestATrialEndsOnceTheServiceIsNotSlowerAnyMore(t *testing.T) {
	d := begun(80)
	d.ends(trialRuns, 2, 0)
	require.Equal(t, off, d.phase)
	d.begin(d.now, 80)
	require.Equal(t, off, d.phase, "the next trial is later")
}

// They may all take as long as the others that run.
func TestATrialThatNoAttemptGetsIntoEnds(t *testing.T) {
	d := begun(80)
	d.ends(shortRuns-1, 20, 0)
	d.keepsBack(d.since + mostTrial)
	require.Equal(t, first, d.phase)
	d.keepsBack(d.since + mostTrial + 1)
	require.Equal(t, off, d.phase)

	d = proven(80)
	d.keepsBack(d.since + time.Hour)
	require.Equal(t, proved, d.phase)
}
