package backoffmetrics

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
)

func calls(t *testing.T, m *Metrics, n int) {
	for range n {
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	}
}

func TestRatesAreThoseOfTheColumnsTheyStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Metrics
		for i := range 40 { // 5, 10, 15 ... calls, every 5 s
			calls(t, &m, 5*(i+1))
			time.Sleep(step)
			m.timeline()
		}
		rates := m.timeline().rates(0, totals.calls)
		require.Len(t, rates, columns)
		require.True(t, math.IsNaN(rates[columns-41]), "before the beginning")
		for i := range 40 {
			require.InDelta(t, i+1, rates[columns-40+i], 1e-9, i)
		}
	})
}

// What was counted while nobody looked is spread over the time between.
func TestAGapIsAnAverage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Metrics
		calls(t, &m, 1)
		time.Sleep(time.Minute)
		calls(t, &m, 119)
		rates := m.timeline().rates(0, totals.calls)
		for _, r := range rates[columns-12:] {
			require.InDelta(t, 2, r, 1e-9)
		}
	})
}

func TestACallInTroubleWritesHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Metrics
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
		var m Metrics
		for range 10 * maxPoints {
			calls(t, &m, 10)
			m.history.record(&m)
			m.history.record(&m)
			time.Sleep(step)
		}
		require.Len(t, m.history.points, maxPoints)
		p := m.timeline()
		require.InDelta(t, span, p.now().at-p.lately().at, float64(step))
		// The last calls came before the last column.
		for _, r := range p.rates(0, totals.calls)[:columns-1] {
			require.InDelta(t, 2, r, 1e-9)
		}
	})
}

// Now means a few seconds and lately some minutes, as soon as that is known.
func TestThePresentIsReckonedFromWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Metrics
		calls(t, &m, 10)
		time.Sleep(time.Hour)
		calls(t, &m, 10)
		r := m.pageReport()
		require.Equal(t, 3600.0, r.Operations[0].Now.Seconds, "nobody looked before")
		require.EqualValues(t, 20, r.Operations[0].Lately.Calls)

		time.Sleep(2 * time.Second)
		calls(t, &m, 6)
		r = m.pageReport()
		require.Equal(t, 2.0, r.Operations[0].Now.Seconds)
		require.EqualValues(t, 6, r.Operations[0].Now.Calls)
		require.Equal(t, 3602.0, r.Operations[0].Lately.Seconds, "two seconds are not lately")

		for range 40 {
			time.Sleep(2 * time.Second)
			r = m.pageReport()
		}
		require.InDelta(t, 8, r.Operations[0].Now.Seconds, 2)
		require.Equal(t, 82.0, r.Operations[0].Lately.Seconds, "more than a minute is")
		require.EqualValues(t, 6, r.Operations[0].Lately.Calls)
	})
}

// Five good minutes do not hide a bad one.
func TestWhatHasJustBegunIsNotDrowned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Metrics
		for i := range 60 {
			if calls(t, &m, 50); i == 57 {
				for range 100 {
					m.Observe(t.Context(), backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Attempt: 1, Reason: backoff.ReasonAttempts})
				}
			}
			m.timeline()
			time.Sleep(step)
		}
		d := m.pageReport().Operations[0].Diagnosis
		require.Equal(t, bad, d.Level)
		require.Contains(t, d.Text, "In the last minute: retries do not converge: ")
		for range 12 {
			calls(t, &m, 50)
			m.timeline()
			time.Sleep(step)
		}
		require.Equal(t, watch, m.pageReport().Operations[0].Diagnosis.Level, "still less than rosy")
	})
}

func TestAnOperationThatCameLaterHasItsOwnHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Metrics
		calls(t, &m, 10)
		time.Sleep(time.Minute)
		m.timeline()
		for range 10 {
			m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: "b", Attempt: 1})
		}
		time.Sleep(step)
		rates := m.timeline().rates(1, totals.calls)
		require.Zero(t, rates[columns-2])
		require.InDelta(t, 2, rates[columns-1], 1e-9)
	})
}

func TestAClockThatIsSetDoesNotStopTheHistory(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, time.Hour} {
		now, set := time.Now(), time.Duration(0)
		clock.Source = func() time.Time { return clocktest.Set(now, set) }
		var m Metrics
		for i := range 20 {
			if i == 10 {
				set = jump
			}
			calls(t, &m, 5)
			m.timeline()
			now = now.Add(step)
		}
		rates := m.timeline().rates(0, totals.calls)
		clock.Source = nil
		require.Len(t, m.history.points, 21, jump)
		for _, r := range rates[columns-19 : columns-1] {
			require.InDelta(t, 1, r, 1e-9, jump)
		}
	}
}
