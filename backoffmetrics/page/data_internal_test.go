package page

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/guard"
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

// served is a Metrics with its page.
type served struct {
	backoffmetrics.Metrics
	*page
}

// serve returns a Metrics that has a page from the start.
func serve(panels ...*control.Panel) *served {
	s := new(served)
	s.page = Handler(&s.Metrics, panels...).(*page)
	return s
}

// points returns the points up to now.
func (s *served) points() timeline {
	t, _ := s.timeline()
	return t
}

var fetch = at("fetch", "")

// at returns the labels of an operation.
func at(name, endpoint string) snapshot.Labels {
	return snapshot.Labels{Name: name, Endpoint: endpoint}
}

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

func TestWhatABudgetHasUsedAndWhatIsLeftAddUp(t *testing.T) {
	for name, c := range map[string]struct {
		stats   backoff.RetryBudgetStats
		waiting int
		want    budgetRow
	}{
		"some left": {backoff.RetryBudgetStats{Successes: 202, Retries: 12, Allowed: 20}, 0, budgetRow{Used: 12, Left: 8, Allowed: 20, Text: "202 successes within its window paid for 20 retries"}},
		"overdrawn": {backoff.RetryBudgetStats{Successes: 202, Retries: 29, Allowed: 20}, 0, budgetRow{Used: 20, Allowed: 20, Extra: 9,
			Text: "202 successes within its window paid for 20 retries; 9 more were granted, on earlier successes or as spare retries"}},
		"strained": {backoff.RetryBudgetStats{Successes: 202, Retries: 12, Allowed: 20, Strained: true}, 0, budgetRow{Used: 12, Left: 8, Allowed: 20,
			Text: "the service is much slower than usual, so there are fewer retries; 202 successes within its window paid for 20 retries"}},
		"patient": {backoff.RetryBudgetStats{}, 3, budgetRow{Text: "3 calls wait for the service to come back; no success within its window, and so none to pay for retries"}},
		"spare":   {backoff.RetryBudgetStats{Retries: 1}, 0, budgetRow{Extra: 1, Text: "no success within its window, and so none to pay for retries; 1 more was granted, on earlier successes or as spare retries"}},
	} {
		require.Equal(t, c.want, budgetRowOf(&snapshot.Budget{RetryBudgetStats: c.stats, Waiting: c.waiting}), name)
	}
}

// A Pacer that slows calls down is why they take longer, and fail without an
// attempt.
func TestABudgetSaysThatCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		hosts := &guard.Services{New: func(string) *guard.Service { return &guard.Service{NoBreaker: true} }}
		m.WatchServices("hosts", hosts)
		p := hosts.For("a.test").With(backoff.Policy{MaxAttempts: 1})
		fail := func(context.Context) error { return backoff.OfClass(errors.New("429"), backoff.ClassThrottled) }
		require.NotContains(t, m.pageData().Budgets[0].Text, "turn")
		for range 10 {
			require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
		}
		for range 4 { // of a program that makes ten calls in a moment
			require.Error(t, p.Do(t.Context(), fail))
		}
		for range 2 {
			go func() { _ = p.Do(t.Context(), fail) }()
		}
		synctest.Wait()
		require.Regexp(t, `^the service throttles: calls wait for their turn, at \d+\.\d a second, and 2 calls wait now; 10 successes`, m.pageData().Budgets[0].Text)
		require.Equal(t, "Calls wait for their turn at a.test. The service throttles: send fewer calls, or ask for a higher limit.", headlineText(t, m))
		time.Sleep(time.Minute)
		require.NotContains(t, m.pageData().Budgets[0].Text, "turn", "it is over")
		require.Contains(t, headlineText(t, m), "Nothing to do")
	})
}

// coded is an error whose type is its SQLSTATE.
type coded string

func (coded) Error() string      { return "coded" }
func (c coded) SQLState() string { return string(c) }

func fail(t *testing.T, m *served, err error) {
	m.Observe(t.Context(), backoff.Event{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1, Class: backoff.ClassRetryable, Err: err})
}

// A program may have any number of kinds of errors. None is lost.
func TestTheKindsOfErrorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		for i := range 30 {
			for range 100 - i {
				fail(t, m, coded(fmt.Sprintf("%05d", i)))
			}
		}
		rows := m.pageData().Operations[0].Errors
		require.Len(t, rows, 8)
		require.Equal(t, "00000", rows[0].Type)
		require.Equal(t, otherErrors, rows[7].Type)
		var sum uint64
		for _, r := range rows {
			sum += r.Count
		}
		require.EqualValues(t, m.pageData().Operations[0].Attempts, sum)

		for range 60 { // these have not occurred for long
			time.Sleep(3 * step)
			m.points()
		}
		fail(t, m, coded("99999"))
		rows = m.pageData().Operations[0].Errors
		require.Len(t, rows, 1)
		require.Equal(t, "99999", rows[0].Type)
		require.EqualValues(t, 1, rows[0].Count, "the slot had another kind before")
	})
}

func TestAnErrorIsDatedFromItsFirstOccurrenceAfterABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		began := time.Now().UnixMilli()
		for range 10 {
			fail(t, m, errors.New("down"))
			time.Sleep(time.Minute)
		}
		row := m.pageData().Operations[0].Errors[0]
		require.Equal(t, began, row.Since)
		require.Equal(t, time.Now().Add(-time.Minute).UnixMilli(), row.Last)
		require.Equal(t, "*errors.errorString", row.Type)
		require.Equal(t, "retryable", row.Class)
		time.Sleep(span + time.Second)
		fail(t, m, errors.New("down"))
		require.Equal(t, time.Now().UnixMilli(), m.pageData().Operations[0].Errors[0].Since)
	})
}

// The page and the log call an error the same.
func TestAFailureOfTheNetworkIsShownByItsPlainName(t *testing.T) {
	for want, err := range map[string]error{
		"connection refused": &url.Error{Op: "Get", URL: "http://a.test", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
		"timeout":            context.DeadlineExceeded,
		"no such host":       &net.DNSError{IsNotFound: true},
	} {
		m := serve()
		fail(t, m, err)
		require.Equal(t, want, m.pageData().Operations[0].Errors[0].Type)
	}
}

func TestAStatusIsShownWithItsMeaning(t *testing.T) {
	for typ, want := range map[string]string{"503": "503 Service Unavailable", "599": "599", "40001": "40001", "connection refused": "connection refused", "UNAVAILABLE": "UNAVAILABLE"} {
		require.Equal(t, want, typeText(typ))
	}
}
