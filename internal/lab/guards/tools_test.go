package guards

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALimiterServesItsBurstAndThenItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(10, 3)
		taken := func() (n int) {
			for range 5 {
				if l.take() {
					n++
				}
			}
			return n
		}
		require.Equal(t, 3, taken())
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, 2, taken())
		time.Sleep(time.Hour)
		require.Equal(t, 3, taken())
		require.Equal(t, 7, l.refused)
	})
}

func TestAQueueDoesOneThingAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		require.Equal(t, time.Second, q.add(time.Second))
		require.Equal(t, 3*time.Second, q.add(2*time.Second))
		time.Sleep(time.Second)
		require.Equal(t, 2*time.Second, q.length())
		time.Sleep(time.Minute)
		require.Equal(t, time.Second, q.add(time.Second))
		require.Equal(t, time.Second, q.worst)
	})
}

func TestAServerWorksSlowlyAtWhatItBeginsInADip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := func(v server, begins time.Duration) time.Duration {
			v.free = time.Now().Add(begins)
			s := newService(1, v.answer)
			return v.answer(s, httptest.NewRequest(http.MethodGet, path(1), nil)).after - begins
		}
		quick := work(dip(), 0)
		require.Equal(t, quick, work(dip(), 29*time.Second))
		require.InDelta(t, float64(quick)/0.3, float64(work(dip(), 31*time.Second)), 2)
		require.Equal(t, quick, work(dip(), 41*time.Second))
	})
}

func TestTheLuckOfAnAttemptIsTheSameForAllClients(t *testing.T) {
	total := 0.0
	for n := range 1000 {
		require.Equal(t, luck(1, path(n), 1), luck(1, path(n), 1))
		require.NotEqual(t, luck(1, path(n), 1), luck(1, path(n), 2))
		require.NotEqual(t, luck(1, path(n), 1), luck(2, path(n), 1))
		total += luck(1, path(n), 1)
	}
	require.InDelta(t, 500, total, 40)
}

func TestALoadBeginsItsCallsWhetherEarlierOnesHaveEndedOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := load{rate: 10, length: 10 * time.Second, deadline: 3 * time.Second, seed: 1}.run(func(ctx context.Context, n int) bool {
			if n%2 == 0 {
				return true
			}
			<-ctx.Done()
			return false
		})
		require.Len(t, all, 100)
		require.Equal(t, 50, all.good())
		require.Len(t, all.between(5*time.Second, 6*time.Second), 10)
		require.Equal(t, 3*time.Second, all[1].took)
	})
}

func TestAJobHasAsManyCallsAtATimeAsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := job{workers: 5, calls: 50, deadline: time.Minute}.run(func(context.Context, int) bool {
			time.Sleep(time.Second)
			return true
		})
		require.Len(t, all, 50)
		require.Equal(t, 10*time.Second, all.end())
	})
}

func TestRecoveryIsTheFirstOfFiveSecondsInWhichNineInTenCallsSucceed(t *testing.T) {
	run := func(good ...int) (all calls) {
		for second, n := range good {
			for i := range 10 {
				all = append(all, call{began: time.Duration(second)*time.Second + time.Duration(i)*time.Millisecond, ok: i < n})
			}
		}
		return all
	}
	require.Equal(t, 0.0, run(0, 9, 9, 9, 9, 9).recovered(time.Second))
	require.Equal(t, 3.0, run(0, 9, 9, 8, 9, 9, 9, 9, 10).recovered(time.Second))
	require.Equal(t, -1.0, run(0, 9, 9, 8, 9, 9, 9, 9).recovered(time.Second))
}

func TestABarIsMissedOnItsSide(t *testing.T) {
	r := results{ours: {success: 98, median: 2, recovery: -1, could: 99}, unguarded: {success: 99.5, median: 1}}
	require.NoError(t, within(ours, 2, unguarded).check(r))
	require.EqualError(t, within(ours, 1, unguarded).check(r), "ours: success is 98, want at least 98.5")
	require.NoError(t, possible(ours, 1).check(r))
	require.NoError(t, atMost(ours, median, 2).check(r))
	require.Error(t, atMost(ours, median, 1.9).check(r))
	require.Error(t, atMost(ours, recovery, 5).check(r), "what never happens is not soon")
	require.False(t, within(ours, 1, none).known(r))
}

func TestEveryBarIsAboutClientsThatThereAre(t *testing.T) {
	for _, worlds := range groups() {
		for _, w := range worlds {
			for _, b := range w.bars {
				for _, name := range b.needs() {
					require.NotNil(t, clientNamed(name), name)
				}
			}
		}
	}
}

func TestEveryClientGetsAnAnswer(t *testing.T) {
	for _, c := range clients {
		synctest.Test(t, func(t *testing.T) {
			s := newService(1, func(s *service, _ *http.Request) answer {
				if s.arrived == 1 {
					return unavailable(usual)
				}
				return ok(usual)
			})
			good := fleet(c, s, 1, time.Second)(t.Context(), 1)
			require.Equal(t, c.name != none, good, c.name)
		})
	}
}
