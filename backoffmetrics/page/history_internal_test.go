package page

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
	"github.com/gobackoff/backoff/internal/snapshot"
)

func calls(t *testing.T, m *served, n int) {
	for range n {
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	}
}

func TestRatesAreThoseOfTheColumnsTheyStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		for i := range 40 { // 5, 10, 15 ... calls, every 5 s
			calls(t, m, 5*(i+1))
			time.Sleep(step)
			m.points()
		}
		rates := m.points().rates(fetch, totals.calls)
		require.Len(t, rates, columns)
		require.True(t, math.IsNaN(rates[columns-41]), "before the beginning")
		for i := range 40 {
			require.InDelta(t, i+1, rates[columns-40+i], 1e-9, i)
		}
	})
}

// What was counted between two points is spread over the time between them.
func TestAGapIsAnAverage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		calls(t, m, 1)
		time.Sleep(time.Minute)
		calls(t, m, 119)
		rates := m.points().rates(fetch, totals.calls)
		for _, r := range rates[columns-12:] {
			require.InDelta(t, 2, r, 1e-9)
		}
	})
}

func TestACallInTroubleWritesHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		for range 10 {
			m.Observe(t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1})
			m.Observe(t.Context(), backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Attempt: 2})
			time.Sleep(step)
		}
		require.Len(t, m.history.points, 10)
	})
}

func TestHistoryDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		for range 10 * maxPoints {
			calls(t, m, 10)
			m.Record()
			m.Record()
			time.Sleep(step)
		}
		require.Len(t, m.history.points, maxPoints)
		p := m.points()
		require.InDelta(t, span, p.now().at-p.lately().at, float64(step))
		// The last calls came before the last column.
		for _, r := range p.rates(fetch, totals.calls)[:columns-1] {
			require.InDelta(t, 2, r, 1e-9)
		}
	})
}

// All numbers are of one window, of some minutes as soon as so much is known.
func TestTheWindowIsThatWhichIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		calls(t, m, 10)
		time.Sleep(20 * time.Second)
		d := m.pageData()
		require.Equal(t, "the last 20 s, and nothing was counted before", d.Period.Text)
		require.Equal(t, d.Now-20_000, d.Period.Start)
		time.Sleep(time.Hour)
		calls(t, m, 10)
		d = m.pageData()
		require.Equal(t, 3600.0, d.Period.Seconds, "nobody looked before")
		require.EqualValues(t, 10, d.Operations[0].Calls)

		for range 40 {
			time.Sleep(2 * time.Second)
			calls(t, m, 3)
			d = m.pageData()
		}
		require.Equal(t, "the last 80 s", d.Period.Text, "more than a minute is known")
		require.EqualValues(t, 120, d.Operations[0].Calls)
		require.Equal(t, 1.5, d.Operations[0].CallsPerSecond)
		for range 200 {
			time.Sleep(2 * time.Second)
			d = m.pageData()
		}
		require.Equal(t, "the last 5 min", d.Period.Text)
	})
}

func failures(t *testing.T, m *served, n int) {
	for range n {
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Attempt: 1, Reason: backoff.ReasonAttempts})
	}
}

// A short outage is no alarm for a minute. A pause in one is no end.
func TestTheHeadlineSaysSoonThatAnOutageIsOver(t *testing.T) {
	for _, attempt := range []backoff.Event{
		{Kind: backoff.EventGiveUp, Attempt: 1, Reason: backoff.ReasonAttempts, Class: backoff.ClassRetryable},
		{Kind: backoff.EventGiveUp, Attempt: 1, Reason: backoff.ReasonDeadline, Class: backoff.ClassThrottled},
		{Kind: backoff.EventGiveUp, Attempt: 1, Reason: backoff.ReasonPermanent, Class: backoff.ClassPermanent},
	} {
		attempt.Name = "fetch"
		synctest.Test(t, func(t *testing.T) {
			m := serve()
			outage := func() {
				for range 6 {
					for range 20 {
						m.Observe(t.Context(), attempt)
					}
					time.Sleep(time.Second)
				}
			}
			pass := func(seconds, each int) string {
				for range seconds {
					calls(t, m, each)
					time.Sleep(time.Second)
					m.points() // somebody looks
				}
				return m.pageData().Headline.Sentences[0].Text
			}
			outage()
			require.NotContains(t, pass(6, 5), "recovered")
			require.NotContains(t, pass(1, 0), "recovered")
			require.Regexp(t, `^fetch has recovered: 5\d % of its calls failed\. It is over: hardly any call of the last 1\d s failed\.$`, pass(14, 5))
			require.Equal(t, watch, m.pageData().Headline.Level)
			outage()
			require.NotContains(t, pass(1, 5), "recovered")
			require.NotContains(t, pass(30, 0), "recovered", "nobody knows")
		})
	}
}

// Five good minutes do not hide a bad one, and the other way round.
func TestWhatHasJustBegunOrEndedIsNotDrowned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		minutes := func(n, good, bad int) diagnosis {
			for range 12 * n {
				calls(t, m, good)
				failures(t, m, bad)
				m.points()
				time.Sleep(step)
			}
			return m.points().diagnose(fetch)
		}
		require.Equal(t, well, minutes(5, 50, 0).finding)
		d := minutes(1, 40, 10)
		require.Equal(t, broken, d.finding)
		require.Contains(t, d.text, "120 of 3000 calls failed (4 %), because attempts, time or budget ran out.", "the numbers are those of the window")
		require.Contains(t, d.text, " This began 60 s ago.")
		d = minutes(3, 40, 10)
		require.Contains(t, d.text, " This began 4 min ago.")
		d = minutes(1, 50, 0)
		require.Equal(t, recovered, d.finding)
		require.Contains(t, d.text, " It is over: hardly any call of the last 60 s failed.")
		require.Equal(t, well, minutes(6, 50, 0).finding)
		d = minutes(1, 0, 1)
		require.Equal(t, broken, d.finding, "enough calls to judge")
		require.Equal(t, well, minutes(6, 50, 0).finding)
		time.Sleep(time.Minute)
		failures(t, m, 3)
		d = m.points().diagnose(fetch)
		require.Equal(t, doubtful, d.finding)
		require.Regexp(t, `^3 of \d+ calls failed \(less than 1 %\), .* None of its few calls of the last minute succeeded\. This began less than 1 ms ago\.$`, d.text)
		require.Equal(t, "This began less than 1 ms ago.", d.since)

		m = serve()
		failures(t, m, 3)
		require.Equal(t, "Too few calls to judge: 3 of 3 calls failed (100 %), because attempts, time or budget ran out. This began less than 1 ms ago.",
			m.points().diagnose(fetch).text)
	})
}

func TestAnOperationThatCameLaterHasItsOwnHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		calls(t, m, 10)
		time.Sleep(time.Minute)
		m.points()
		for range 10 {
			m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: "b", Attempt: 1})
		}
		time.Sleep(step)
		rates := m.points().rates(snapshot.Labels{Name: "b"}, totals.calls)
		require.Zero(t, rates[columns-2])
		require.InDelta(t, 2, rates[columns-1], 1e-9)
	})
}

func TestAClockThatIsSetDoesNotStopTheHistory(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, time.Hour} {
		now, set := time.Now(), time.Duration(0)
		clock.Source = func() time.Time { return clocktest.Set(now, set) }
		m := serve()
		for i := range 20 {
			if i == 10 {
				set = jump
			}
			calls(t, m, 5)
			m.points()
			now = now.Add(step)
		}
		rates := m.points().rates(fetch, totals.calls)
		clock.Source = nil
		require.Len(t, m.history.points, 21, jump)
		for _, r := range rates[columns-19 : columns-1] {
			require.InDelta(t, 1, r, 1e-9, jump)
		}
	}
}

func TestThePageShowsWhatCameAfterTheFirstHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(served)
		calls(t, s, 7)
		s.page = Handler(&s.Metrics).(*page)
		fail(t, s, errors.New("down"))
		time.Sleep(step)
		calls(t, s, 3)
		again := Handler(&s.Metrics).(*page)
		for _, p := range []*page{s.page, again} {
			d := p.pageData()
			require.EqualValues(t, 3, d.Operations[0].Calls)
			require.Len(t, d.Operations[0].Errors, 1)
			require.Equal(t, "the last 5 s", d.Period.Text)
		}
	})
}
