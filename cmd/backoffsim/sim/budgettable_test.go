package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// This test is the row of the default budget in a table that compares budgets:
// Poisson arrivals, up to four attempts, and delays of 50, 100 and 200 ms with
// full jitter. With -v it prints the figures.
func TestTheDefaultBudgetInTheTableOfBudgets(t *testing.T) {
	short := backoff.Policy{Schedule: backoff.Exponential{Initial: 50 * time.Millisecond}}
	run := func(rate float64, s Service, horizon time.Duration) []Second {
		return Fleet{Policy: short, Budget: retryBudget, Rate: rate}.Run(1, s, horizon)
	}
	down := func(latency time.Duration) Service { return &Faulty{Failing: Always(1), Latency: latency} }
	const ms = time.Millisecond

	outage := amplification(Total(run(1000, down(5*ms), time.Minute)))
	slow := amplification(Total(run(1000, down(500*ms), time.Minute)))
	small := amplification(Total(run(1, down(5*ms), 10*time.Minute)))
	t.Logf("amplification in an outage: %.3f at 1000/s, %.3f with 500 ms attempts, %.3f at 1/s", outage, slow, small)
	require.Less(t, max(outage, slow, small), 1.01)

	start := run(1000, down(5*ms), 5*time.Second)[0]
	onset := Total(run(1000, &Faulty{Failing: Within(30*time.Second, time.Hour, 1), Latency: 5 * ms}, 35*time.Second)[30:35])
	t.Logf("retries: %d in the first second of a start in an outage, %d in 5 s after a healthy time", start.Attempts-start.Calls, onset.Attempts-onset.Calls)
	require.LessOrEqual(t, start.Attempts-start.Calls, 4, "the attempts of one call, and the spare one")
	require.InDelta(t, 1200, onset.Attempts-onset.Calls, 150)

	for _, c := range []struct{ errors, amplification, success float64 }{{0.1, 1.11, 0.999}, {0.3, 1.41, 0.99}} {
		total := Total(run(1000, &Faulty{Failing: Always(c.errors), Latency: 5 * ms}, time.Minute))
		success := float64(total.Good) / float64(total.Calls)
		t.Logf("%.0f %% errors: amplification %.3f, success %.4f", 100*c.errors, amplification(total), success)
		require.InDelta(t, c.amplification, amplification(total), 0.02)
		require.InDelta(t, c.success, success, 0.02)
	}

	blip := Total(run(1000, &Faulty{Failing: Within(20*time.Second, 20*time.Second+100*ms, 1), Latency: 5 * ms}, 25*time.Second))
	t.Logf("blip: %d calls lost of about 100", blip.Lost)
	require.Less(t, blip.Lost, 30)

	after := func(at time.Duration) float64 {
		if at < 60*time.Second {
			return 1
		}
		return 0.05
	}
	recovered := Total(run(10, &Faulty{Failing: after, Latency: 5 * ms}, 90*time.Second)[60:90])
	t.Logf("success in the 30 s after an outage, at 5 %% errors: %.4f", float64(recovered.Good)/float64(recovered.Calls))
	require.Greater(t, float64(recovered.Good)/float64(recovered.Calls), 0.98)
}
