package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
)

// The tests of this file hold the promises of the default budget, from (a) to
// (f), each with the library's own Policy and RetryBudget.

// busy is a client that makes 1000 calls a second under the default policy.
var busy = Fleet{Budget: retryBudget, Every: time.Millisecond}

// (a) When all calls fail, there are hardly any retries after the first second,
// regardless of how long a failure takes.
func TestAnOutageCostsNoMoreThanTwoPercent(t *testing.T) {
	for _, latency := range []time.Duration{time.Millisecond, 20 * time.Millisecond, time.Second, 5 * time.Second} {
		outage := &Faulty{Failing: Within(20*time.Second, 80*time.Second, 1), Latency: latency}
		seconds := busy.Run(1, outage, 80*time.Second)

		first, rest := seconds[20], Total(seconds[21:80])
		require.LessOrEqual(t, amplification(rest), 1.02, "at a latency of %v", latency)
		require.LessOrEqual(t, amplification(first), 2.5, "in the first second")
		require.Zero(t, rest.Good)
	}
}

// (b) A caller with one call a second gets its retries, from the first minute
// on.
func TestALoneCallerIsHardlyEverRefused(t *testing.T) {
	lone := Fleet{Budget: retryBudget, Every: time.Second}
	var minute, later Second
	for seed := range uint64(500) {
		seconds := lone.Run(seed, &Faulty{Failing: Always(0.05), Latency: time.Millisecond}, 5*time.Minute)
		minute = Total([]Second{minute, Total(seconds[:60])})
		later = Total([]Second{later, Total(seconds[60:])})
	}
	require.Greater(t, minute.Asked, 1000, "or the shares below mean nothing")
	require.Less(t, refusals(minute), 0.01, "in the first minute")
	require.Less(t, refusals(later), 0.01, "later")
}

// (c) A busy client rescues nearly all calls from a short failure.
func TestABlipIsRescued(t *testing.T) {
	blip := &Faulty{Failing: Within(20*time.Second, 20*time.Second+100*time.Millisecond, 1), Latency: time.Millisecond}
	total := Total(busy.Run(1, blip, 30*time.Second))
	require.LessOrEqual(t, total.Lost, 30, "of the 100 calls of the blip")
	require.Greater(t, total.Asked, 90)
}

// What an outage took away does not keep a caller from its retries afterwards.
func TestRetriesAreGrantedAgainAfterAnOutage(t *testing.T) {
	failing := func(at time.Duration) float64 {
		if at < time.Minute {
			return 1
		}
		return 0.05
	}
	after := Total(Fleet{Budget: retryBudget, Rate: 10}.Run(1, &Faulty{Failing: failing, Latency: 5 * time.Millisecond}, 90*time.Second)[60:])
	require.Greater(t, float64(after.Good)/float64(after.Calls), 0.98)
}

// (d) Retries hide random errors of 10 %, and cost no more than they must.
func TestTenPercentRandomErrorsAreCarried(t *testing.T) {
	for _, rate := range []float64{1, 3, 10, 100, 1000} {
		fleet := Fleet{Budget: retryBudget, Rate: rate}
		calls := 50_000.0
		horizon := time.Duration(calls / rate * float64(time.Second))
		total := Total(fleet.Run(1, &Faulty{Failing: Always(0.1), Latency: time.Millisecond}, horizon))

		require.GreaterOrEqual(t, float64(total.Good)/float64(total.Calls), 0.99, "at %v calls/s", rate)
		require.LessOrEqual(t, amplification(total), 1.12, "at %v calls/s", rate)
	}
}

// (e) A fleet of any size recovers from the dip of the reference: at 80 % load
// within a minute, and at 90 % load within twice the time that it takes without
// retries.
func TestFleetsOfAnySizeRecoverFromADip(t *testing.T) {
	bare := recovery(900, 20, backoff.Policy{MaxAttempts: 1}, nil)
	require.InDelta(t, 51, bare.Seconds(), 5, "the reference model, without retries")
	for _, processes := range nightly.Size([]int{20, 1000}, []int{20, 200, 1000, 4000}) {
		require.LessOrEqual(t, recovery(800, processes, referencePolicy, retryBudget), time.Minute, "%d processes at 80 %%", processes)
		require.LessOrEqual(t, recovery(900, processes, referencePolicy, retryBudget), 2*bare, "%d processes at 90 %%", processes)
	}
}

// Without the budget, the same clients with the same jitter never recover.
func TestWithoutABudgetJitterAloneNeverRecovers(t *testing.T) {
	require.Equal(t, never, recovery(800, 20, referencePolicy, nil))
}

// (f) A client that has just started, or that calls once a minute, may retry.
func TestRareCallersMayRetry(t *testing.T) {
	rare := Fleet{Budget: retryBudget, Every: time.Minute}
	total := Total(rare.Run(1, &Faulty{Failing: Always(0.3), Latency: time.Millisecond}, 100*time.Hour))
	once, full := 1-0.3, 1-0.3*0.3
	success := float64(total.Good) / float64(total.Calls)
	require.Greater(t, success, (once+9*full)/10, "nearly all that one retry can give")

	down := Total(Fleet{Budget: retryBudget, Every: time.Minute}.Run(1, &Faulty{Failing: Always(1)}, 59*time.Second))
	require.Equal(t, 1, down.Calls)
	require.Equal(t, 4, down.Attempts, "one shot, at a service that is down")

	hour := Total(rare.Run(1, &Faulty{Failing: Always(1)}, time.Hour))
	require.Equal(t, hour.Calls+3, hour.Attempts, "and no more until something succeeds")
}

// Processes that start in an outage cost the service the attempts of one call
// each, once: at most MaxAttempts retries, however long the outage is and however
// many calls they make. They recover like those that were there before.
func TestAFleetThatStartsInAnOutagePaysOneCallEach(t *testing.T) {
	const processes, minute = 1000, time.Minute
	for _, limit := range []int{2, 4, 10, -1} {
		policy := backoff.Policy{MaxAttempts: limit}
		fresh := Fleet{Processes: processes, Policy: policy, Budget: retryBudget, Rate: processes}
		most := limit
		if limit < 0 {
			most = 4
		}
		seconds := fresh.Run(1, &Faulty{Failing: Within(0, minute, 1), Latency: 20 * time.Millisecond}, 2*minute)
		outage, end := Total(seconds[:60]), Total(seconds[50:60])
		require.LessOrEqual(t, outage.Attempts-outage.Calls, most*processes, "MaxAttempts %d", limit)
		require.GreaterOrEqual(t, outage.Attempts-outage.Calls, (most-1)*processes*9/10, "MaxAttempts %d", limit)
		require.LessOrEqual(t, amplification(end), 1.01, "MaxAttempts %d", limit)
		t.Logf("MaxAttempts %d: %.2f retries for each process, in a minute in which it makes %d calls", limit, float64(outage.Attempts-outage.Calls)/processes, outage.Calls/processes)
		after := Total(seconds[70:]) // when the last calls of the outage are over
		require.Equal(t, after.Attempts, after.Calls, "MaxAttempts %d", limit)
	}
}

// A fleet whose processes all start when the server gets slow recovers as soon as
// the server has worked off the four attempts of one call of each.
func TestAFleetThatStartsInADipRecovers(t *testing.T) {
	start := Dip()
	start.Fault.From = 0
	bare := recoveryFrom(start, backoff.Policy{MaxAttempts: 1}, nil)
	for _, processes := range nightly.Size([]int{20, 1000}, []int{20, 200, 1000, 4000}) {
		start.Processes = processes
		got := recoveryFrom(start, referencePolicy, retryBudget)
		const spare = 1000 - 800 // attempts per second
		t.Logf("%d processes: %v, without retries %v", processes, got, bare)
		require.LessOrEqual(t, got, bare+time.Duration(4*processes)*time.Second/spare, "%d processes", processes)
	}
}

// referencePolicy is the default policy of the reference model.
var referencePolicy = backoff.Policy{Schedule: backoff.Exponential{Max: 10 * time.Second}}

// never is the recovery time of a run without recovery.
const never = 200 * time.Second

// recovery returns how long a fleet needs to recover from the dip, as the mean
// of a few seeds.
func recovery(rate float64, processes int, p backoff.Policy, budget func() backoff.Budget) time.Duration {
	dip := Dip()
	dip.Rate, dip.Processes = rate, processes
	return recoveryFrom(dip, p, budget)
}

func recoveryFrom(dip Scenario, p backoff.Policy, budget func() backoff.Budget) time.Duration {
	r, err := Compare(dip, []Client{NewClient("fleet", p, budget, nil)}, Options{Seeds: 3})
	if err != nil {
		panic(err)
	}
	return (seconds(r[0].Recovery.Mean)*time.Duration(r[0].Seeds-r[0].Never) + never*time.Duration(r[0].Never)) / time.Duration(r[0].Seeds)
}

func amplification(s Second) float64 { return float64(s.Attempts) / float64(s.Calls) }

func refusals(s Second) float64 { return float64(s.Refused) / float64(s.Asked) }
