package page

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// A clock that is set changes the time of day of an error, and not how long ago
// it was.
func TestErrorsAreDatedAlthoughTheClockIsSet(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, time.Hour} {
		now, set := time.Now(), time.Duration(0)
		clock.Source = func() time.Time { return clocktest.Set(now, set) }
		m := serve()
		fail(t, m, errors.New("down"))
		now, set = now.Add(time.Minute), jump
		for i := range 20 { // 20 kinds, each 3 minutes after the one before
			row := m.pageData().Operations[0].Errors[0]
			require.Equal(t, clock.Now().Add(-time.Minute).UnixMilli(), row.Last, "%v %d", jump, i)
			require.Equal(t, row.Since, row.Last)
			now = now.Add(10 * time.Minute)
			m.points()
			fail(t, m, coded(fmt.Sprintf("%05d", i)))
			now = now.Add(time.Minute)
		}
		clock.Source = nil
	}
}

func TestTroubleBeginsWithTheFirstCallThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		calls(t, m, 10)
		time.Sleep(time.Hour) // nobody opens the page
		for range 12 {
			failures(t, m, 1)
			time.Sleep(time.Second)
		}
		d := m.pageData()
		require.Contains(t, d.Operations[0].Text, " This began 12 s ago.")
		require.Equal(t, "fetch is failing: 55 % of its calls failed. This began 12 s ago. Retries cannot help; look at the service.", d.Headline.Sentences[0].Text)
		time.Sleep(3 * time.Minute)
		require.Contains(t, m.pageData().Operations[0].Text, " This began 3 min ago.")
		for range 100 { // longer than the page remembers
			failures(t, m, 1)
			time.Sleep(step)
		}
		require.Contains(t, m.pageData().Operations[0].Text, " This began 5 min ago or earlier.")
	})
}

// A rate of the first millisecond would be absurd.
func TestTheFirstWindowIsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		d := m.pageData()
		require.Equal(t, period{Start: d.Now - 1000, Seconds: 1, Text: "the last 1 s, and nothing was counted before"}, d.Period)
		calls(t, m, 1)
		time.Sleep(time.Millisecond)
		require.Equal(t, 1.0, m.pageData().Operations[0].CallsPerSecond)
		time.Sleep(2 * time.Second)
		require.Equal(t, 0.5, m.pageData().Operations[0].CallsPerSecond)
	})
}

func TestACircuitThatIsOpenMakesItsOperationUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		b := &backoff.Breaker{Name: "fetch", Observer: m.Observe}
		calls(t, m, 100)
		failures(t, m, 3)
		b.Trip()
		time.Sleep(time.Second)
		d := m.pageData()
		require.Equal(t, bad, d.Operations[0].Level)
		require.Equal(t, "fetch is down: its circuit is open, and 3 % of its calls failed. The circuit opened 1 s ago. Retries cannot help; look at the service.", d.Headline.Sentences[0].Text)
	})
}

func TestOperationsThatAreCountedTogetherAreNamedAsSuch(t *testing.T) {
	m := serve()
	m.MaxNames = 1
	for _, name := range []string{"a", "b", "c"} {
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: name, Attempt: 1})
	}
	d := m.pageData()
	require.NotContains(t, d.Operations[0].Text, "MaxNames")
	require.Equal(t, snapshot.Other, d.Operations[1].Name)
	require.Contains(t, d.Operations[1].Text, " These are all operations beyond MaxNames, counted together.")
}

// How much an estimate is worth depends on how many values it is of. There is
// none of none.
func TestQuantilesSayOfHowManyTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		to := &endpoint.Endpoint{Name: "GET a"}
		ctx := endpoint.With(t.Context(), to)
		for n := range uint64(3) {
			m.Observe(ctx, backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
			c := m.pageData().Operations[0]
			require.Equal(t, n, c.Attempting.Count)
			switch n {
			case 0:
				require.Equal(t, &attempting{P50: -1, P95: -1, P99: -1}, c.Attempting)
			case 2:
				require.LessOrEqual(t, c.Attempting.P50, 0.005)
				require.Equal(t, 300.0, c.Attempting.P99, "beyond the last bound")
			}
			require.Error(t, to.Do(ctx, func(context.Context) error { time.Sleep(2 * time.Hour * time.Duration(n)); return errors.New("down") }))
		}
	})
}

// Of several breakers that may have refused the calls the worst counts.
func TestTheCircuitOfAnOperationIsTheWorst(t *testing.T) {
	rows := []breakerRow{{Name: "a", Level: good}, {Name: "b", Level: bad}, {Name: "c", Level: watch}}
	for want, names := range map[string][]string{"a": {"a", "x"}, "b": {"a", "b", "c"}, "c": {"c", "a"}} {
		require.Equal(t, want, worstCircuit(rows, names).Name)
	}
	require.Nil(t, worstCircuit(rows, []string{"x"}))
}

func TestAListOfManyNamesIsShort(t *testing.T) {
	for want, names := range map[string]string{"": "", "a": "a", "a and b": "a b", "a, b and c": "a b c", "a, b, c and 1 more": "a b c d"} {
		require.Equal(t, want, list(strings.Fields(names)))
	}
}

// The page has elements of its own, and the link is read by people.
func TestTheIDOfACardIsItsOwn(t *testing.T) {
	seen := make(map[string]snapshot.Labels)
	for _, l := range []snapshot.Labels{at("a", ""), at("a-b", ""), at("a b", ""), at("a", "b"), at("ab", ""), at("ä", ""), at("ö", ""), at(strings.Repeat("x", 200), "")} {
		id := idOf(l)
		require.Regexp(t, `^op-[A-Za-z0-9._~%+/-]+$`, id)
		require.NotContains(t, seen, id, "%v", l)
		seen[id] = l
	}
	require.Equal(t, "op-v1.search_all-2/GET+a.test", idOf(at("v1.search_all-2", "GET a.test")))
}

// The diagnosis and the alerts of contrib/dashboards mean the same reasons: these,
// and that a circuit was open.
func TestTransientFailuresAreThoseOfTheAlerts(t *testing.T) {
	var names []string
	for _, reason := range transientReasons {
		names = append(names, reason.String())
	}
	names = append(names, backoff.ReasonOpen.String())
	alerts, err := os.ReadFile("../../contrib/dashboards/alerts.yaml")
	require.NoError(t, err)
	selector := `backoff_failures_total{reason=~"` + strings.Join(names, "|") + `"}`
	require.Equal(t, strings.Count(string(alerts), "backoff_failures_total{"), strings.Count(string(alerts), selector))
	require.Positive(t, strings.Count(string(alerts), selector))
}
