package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestADiagnosisSaysWhatTheNumbersMean(t *testing.T) {
	for name, c := range map[string]struct {
		totals totals
		level  level
		text   string
	}{
		"idle":            {totals{}, quiet, "No calls."},
		"a connection":    {totals{reconnects: 1}, quiet, "A supervised loop: 1 reconnect."},
		"too few":         {totals{first: 1, failed: 8, transientFailures: 8, attempts: 30, retries: 21}, quiet, "Too few calls to judge: 8 of 9 calls failed (89 %), because attempts, time or budget ran out."},
		"one":             {totals{first: 1, attempts: 1}, quiet, "Too few calls to judge: the only one succeeded."},
		"one failed":      {totals{failed: 1, transientFailures: 1, attempts: 4, retries: 3}, quiet, "Too few calls to judge: 1 of 1 call failed (100 %), because attempts, time or budget ran out."},
		"few, bad":        {totals{failed: 3, transientFailures: 2, attempts: 3}, watch, "Too few calls to judge: 3 of 3 calls failed (100 %): 2 because attempts, time or budget ran out, 1 for reasons that no retry changes."},
		"only refused":    {totals{failed: 40, open: 40}, bad, "40 of 40 calls failed (100 %), because the circuit was open. Retries cannot help; look at the service."},
		"permanent, half": {totals{first: 50, failed: 50, attempts: 100}, watch, "50 of 100 calls failed (50 %), for reasons that no retry changes. No call needed a retry."},
		"hedged": {totals{first: 20, failed: 80, transientFailures: 80, attempts: 200, hedges: 100}, bad,
			"80 of 100 calls failed (80 %), because attempts, time or budget ran out. Retries cannot help; look at the service. Retries multiply its load by 2.0, and no budget refused any."},
		"too few, some": {totals{first: 2, failed: 7, transientFailures: 7, attempts: 30, retries: 21}, quiet, "Too few calls to judge: 7 of 9 calls failed (78 %), because attempts, time or budget ran out."},
		"none needed":   {totals{first: 100, attempts: 100}, good, "No call needed a retry."},
		"rescued":       {totals{first: 95, retried: 5, attempts: 105, retries: 5}, good, "Retries rescued 100 % of the 5 calls that needed them."},
		"permanent":     {totals{first: 90, failed: 10, attempts: 100}, good, "10 of 100 calls failed (10 %), for reasons that no retry changes. No call needed a retry."},
		"hidden":        {totals{first: 80, retried: 20, attempts: 130, retries: 30}, watch, "Retries hide a fault: 100 calls made 30 retries, and hardly any of them failed."},
		"some rescued": {totals{first: 90, retried: 6, failed: 4, transientFailures: 4, attempts: 120, retries: 20}, watch,
			"4 of 100 calls failed (4 %), because attempts, time or budget ran out. Retries rescued 60 % of the 10 calls that needed them."},
		"broken, bare": {totals{first: 20, failed: 80, transientFailures: 80, attempts: 340, retries: 240}, bad,
			"80 of 100 calls failed (80 %), because attempts, time or budget ran out. Retries cannot help; look at the service. Retries multiply its load by 3.4, and no budget refused any."},
		"broken, guard": {totals{first: 20, failed: 80, transientFailures: 80, attempts: 105, retries: 5, refused: 75}, bad,
			"80 of 100 calls failed (80 %), because attempts, time or budget ran out. Retries cannot help; look at the service. Retries multiply its load by 1.1; the retry budget refuses more."},
		"broken, open": {totals{first: 50, failed: 50, transientFailures: 15, attempts: 70, open: 30}, bad,
			"50 of 100 calls failed (50 %): 30 because the circuit was open, 15 because attempts, time or budget ran out, 5 for reasons that no retry changes. Retries cannot help; look at the service."},
		"refused inside": {totals{first: 50, failed: 50, attempts: 50, open: 50}, bad,
			"50 of 100 calls failed (50 %), because the circuit was open. Retries cannot help; look at the service."},
		"throttled": {totals{first: 30, failed: 70, transientFailures: 70, attempts: 50, failedAttempts: 20, throttled: 15}, bad,
			"70 of 100 calls failed (70 %), because attempts, time or budget ran out. The service throttles: send fewer calls, or ask for a higher limit."},
		"throttled at times": {totals{first: 30, failed: 70, transientFailures: 70, attempts: 100, failedAttempts: 70, throttled: 5}, bad,
			"70 of 100 calls failed (70 %), because attempts, time or budget ran out. Retries cannot help; look at the service."},
		"throttled, then down": {totals{first: 30, failed: 70, transientFailures: 30, attempts: 60, failedAttempts: 30, throttled: 30, open: 40}, bad,
			"70 of 100 calls failed (70 %): 40 because the circuit was open, 30 because attempts, time or budget ran out. Retries cannot help; look at the service."},
		"many": {totals{first: 1_234_567, attempts: 1_234_567, failed: 1}, good, "1 of 1,234,568 calls failed (less than 1 %), for reasons that no retry changes. No call needed a retry."},
	} {
		f := find(c.totals)
		require.Equal(t, c.level, f.level(), name)
		require.Equal(t, c.text, describe(f, c.totals), name)
	}
}

func TestTheHeadlineSaysWhatToDoFirst(t *testing.T) {
	operation := func(name string, f finding, circuit string) card {
		c := card{Name: name, ID: name, finding: f, numbers: numbers{FailedShare: "28 %"}}
		if circuit != "" {
			c.Circuit = &breakerRow{Name: name, State: circuit}
		}
		return c
	}
	told := func(name string, f finding) card {
		c := operation(name, f, "")
		c.since, c.failures = "This began 7 s ago.", 2
		return c
	}
	breaker := func(name, state string) breakerRow { return breakerRow{Name: name, State: state} }
	for _, c := range []struct {
		operations []card
		breakers   []breakerRow
		level      level
		want       []string
	}{
		{nil, nil, good, []string{"Nothing to do."}},
		{[]card{operation("a", well, ""), operation("b", idle, "")}, []breakerRow{breaker("c", "closed")}, good, []string{"Nothing to do."}},
		{[]card{operation("a", broken, "open")}, []breakerRow{breaker("a", "open")}, bad,
			[]string{"a is down: its circuit is open, and 28 % of its calls failed. Retries cannot help; look at the service."}},
		{[]card{operation("a", broken, "closed")}, []breakerRow{breaker("a", "closed")}, bad,
			[]string{"a is failing: 28 % of its calls failed. Retries cannot help; look at the service."}},
		{[]card{operation("a", broken, "half-open")}, []breakerRow{breaker("a", "half-open")}, bad,
			[]string{"a may be coming back: the next calls probe it. 28 % of its calls failed. Wait for their result."}},
		{[]card{operation("a", broken, "forced open")}, nil, bad,
			[]string{"a is switched off: 28 % of its calls failed. Its circuit is forced open: close it when the service may be called."}},
		{[]card{operation("b", partly, ""), operation("a", broken, ""), operation("c", hidden, ""), operation("d", recovered, "")}, nil, bad, []string{
			"a is failing: 28 % of its calls failed. Retries cannot help; look at the service.", "b is flaky: 28 % of its calls failed. Look at its errors.",
			"Retries hide a fault of c: look at its errors.", "1 more operation needs a look."}},
		{[]card{operation("d", recovered, "")}, nil, watch, []string{"d has recovered: 28 % of its calls failed."}},
		{[]card{told("a", broken), told("b", doubtful), told("c", permanent)}, nil, bad, []string{
			"a is failing: 28 % of its calls failed. This began 7 s ago. Retries cannot help; look at the service.",
			"c is failing for reasons that no retry changes: 28 % of its calls failed. This began 7 s ago. Look at its errors.",
			"b may be down: none of its last calls succeeded. This began 7 s ago. Look at its errors."}},
		{[]card{operation("a", throttled, "closed"), operation("b", broken, "")}, nil, bad, []string{
			"b is failing: 28 % of its calls failed. Retries cannot help; look at the service.",
			"a is throttled: 28 % of its calls failed. The service throttles: send fewer calls, or ask for a higher limit."}},
		{[]card{told("a", few)}, nil, good, []string{"Nothing to do, as far as so few calls tell."}},
		{[]card{operation("a", partly, "open")}, []breakerRow{breaker("a", "open")}, bad,
			[]string{"a is down: its circuit is open, and 28 % of its calls failed. Retries cannot help; look at the service."}},
		{[]card{operation("a", well, "open")}, []breakerRow{breaker("a", "open"), breaker("b", "open (observed only)")}, bad,
			[]string{"The circuit is open for a: calls are refused. Retries cannot help; look at the service."}},
		{nil, []breakerRow{breaker("a", "half-open")}, watch,
			[]string{"The circuit is half-open for a: the next calls probe the service. Wait for their result."}},
		{nil, []breakerRow{breaker("a", "open"), breaker("b", "half-open"), breaker("c", "forced open"), breaker("d", "open")}, bad, []string{
			"The circuit is open for a and d: calls are refused. Retries cannot help; look at the service.",
			"The circuit is forced open for c: close it when the service may be called.",
			"The circuit is half-open for b: the next calls probe the service. Wait for their result."}},
	} {
		h := headlineOf(&pageData{Operations: c.operations, Breakers: c.breakers})
		var said []string
		for _, s := range h.Sentences {
			said = append(said, s.Text)
		}
		require.Equal(t, c.want, said)
		require.Equal(t, c.level, h.Level)
	}
}

// Numbers change all the time, and a screen reader should not.
func TestTheAnnouncementHasNoNumbers(t *testing.T) {
	h := headlineOf(&pageData{Operations: []card{
		{Name: "a", finding: broken, numbers: numbers{FailedShare: "28 %"}},
		{Name: "b", Endpoint: "GET http://b:8080", finding: partly, numbers: numbers{FailedShare: "4 %"}},
	}})
	require.Equal(t, "a is failing. b (GET http://b:8080) is flaky. ", h.Announcement)
}

func TestAlmostAllIsNotAll(t *testing.T) {
	for want, of := range map[string][2]uint64{"100 %": {7, 7}, "more than 99 %": {9999, 10000}, "less than 1 %": {1, 10000}, "0 %": {0, 5}, "50 %": {1, 2}} {
		require.Equal(t, want, share(of[0], of[1]))
	}
}

func TestDurationsAreSaidInTheirUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "less than 1 ms", 950 * time.Millisecond: "950 ms", 5410 * time.Millisecond: "5.4 s", 3 * time.Second: "3 s", 42 * time.Second: "42 s",
		9990 * time.Millisecond: "9.9 s", 10010 * time.Millisecond: "10 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 min",
		5 * time.Minute: "5 min", 119 * time.Minute: "119 min", 3 * time.Hour: "3 h", 72 * time.Hour: "3 days",
	} {
		require.Equal(t, want, durationText(d))
	}
}
