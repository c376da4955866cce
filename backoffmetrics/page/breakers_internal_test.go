package page

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/snapshot"
)

func TestABreakerSaysForHowLongAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		for _, trigger := range snapshot.Triggers {
			for to := range backoff.BreakerHalfOpen + 1 {
				m.Observe(t.Context(), backoff.Event{Kind: backoff.EventTransition, Name: "db", Transition: &backoff.BreakerTransition{
					Name: "db", To: to, Trigger: trigger, At: time.Now().Add(-950 * time.Millisecond)}})
				require.Regexp(t, "^for 950 ms, because [a-zA-Z ]+; opened ", m.pageData().Breakers[0].Text+"; opened ")
			}
		}
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventTransition, Name: "db", Transition: &backoff.BreakerTransition{
			Name: "db", To: backoff.BreakerOpen, Trigger: "probe", At: time.Now().Add(-950 * time.Millisecond)}})
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventRefused, Name: "db", Reason: backoff.ReasonOpen})
		require.Equal(t, breakerRow{Name: "db", State: "open", Level: bad, Refused: 1, Opened: 9, age: "950 ms", Text: "for 950 ms, because a probe failed; opened 9 times; refused 1 call"}, m.pageData().Breakers[0])
	})
}

func TestAWatchedBreakerSaysWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		b := &backoff.Breaker{OpenFor: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Observer: m.Observe, Name: "db"}
		m.WatchBreaker("db", b)
		row := func() string {
			r := m.pageData().Breakers[0]
			return string(r.Level) + ", " + r.State + ": " + r.Text
		}
		require.Equal(t, "good, closed: since the start", row())
		b.Trip()
		require.Equal(t, "bad, open: for less than 1 ms, because it was set by hand or by the program; opened 1 time", row())
		time.Sleep(time.Second)
		require.Equal(t, "watch, half-open: the open time has expired, and the next call probes the service; it opened because it was set by hand or by the program; opened 1 time", row())
		b.Force(backoff.ModeForcedOpen)
		require.Equal(t, "bad, forced open: by hand or by the program, until that ends; opened 1 time", row())
		b.Force(backoff.ModeForcedClosed)
		require.Equal(t, "watch, forced closed: by hand or by the program, until that ends; opened 1 time", row())
		b.Force(backoff.ModeObserve)
		require.Equal(t, "good, closed: for less than 1 ms, because it was set by hand or by the program; opened 1 time; it only observes, and refuses nothing", row())
		b.Trip()
		require.Regexp(t, "^watch, open \\(observed only\\): for .*; it only observes, and refuses nothing$", row())

		deaf := new(backoff.Breaker)
		m.WatchBreaker("db", deaf)
		m.WatchBreaker("apart", deaf)
		deaf.Trip()
		require.Equal(t, "the reason is not known: its Observer is not connected", m.pageData().Breakers[0].Text)
	})
}
