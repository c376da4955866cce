package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/presets"
)

func TestATableShowsDelayBandAndSum(t *testing.T) {
	require.Equal(t, strings.TrimPrefix(`
retry  policy  delay  wait min   mean    max  total min   mean    max
1      fetch   100ms        0s   50ms  100ms         0s   50ms  100ms
2      fetch   300ms        0s  150ms  300ms         0s  200ms  400ms
3      fetch   900ms        0s  450ms  900ms         0s  650ms   1.3s

policy  attempts  a call takes at most
fetch          4                  9.3s
`, "\n"), succeed(t, "policy", "-policy", "testdata/fetch.json"))
}

func TestPoliciesAreListedRetryByRetry(t *testing.T) {
	out := succeed(t, "policy", "-policy", "none", "-policy", "naive", "-policy", "default", "-policy", "gcs-go-default")
	require.Regexp(t, `(?m)^1 +naive +0s +0s +0s +0s +0s +0s +0s$`, out)
	require.Regexp(t, `(?m)^none +1 +0s \+ attempts$`, out)
	require.Regexp(t, `(?m)^naive +4 +0s \+ attempts$`, out)
	require.Regexp(t, `(?m)^default +4 +700ms \+ attempts$`, out)
	require.Regexp(t, `(?m)^gcs-go-default +no limit +no limit$`, out)
	require.NotRegexp(t, `(?m)^4 +default`, out)
	require.Regexp(t, `(?m)^10 +gcs-go-default +30s`, out)
}

func TestAGrowingScheduleThatDoesNotGrowIsNamed(t *testing.T) {
	for text, never := range map[string]bool{
		`{"name": "minutely", "schedule": {"exponential": {"initial": "1m", "max": "1m"}}}`:     true,
		`{"name": "minutely", "schedule": {"linear": {"initial": "1m", "max": "1m"}}}`:          true,
		`{"name": "minutely", "schedule": {"exponential": {"initial": "1m", "multiplier": 1}}}`: true,
		`{"name": "minutely", "schedule": {"exponential": {"initial": "1m"}}}`:                  false,
		`{"name": "minutely", "schedule": "1m"}`:                                                false,
	} {
		status, out, _ := execute(t, text, "policy", "-policy", "-")
		require.Zero(t, status)
		require.Equal(t, never, strings.Contains(out, "The delay of minutely never grows.\n"), text)
	}
}

func TestAClassWithLimitsOfItsOwnIsListedAfterItsPolicy(t *testing.T) {
	const text = `{"name": "fetch", "maxAttempts": 3, "jitter": "none", "byClass": {
		"throttled": {"maxAttempts": 5, "schedule": {"exponential": {"initial": "1m", "max": "1m"}}}, "notSent": {"maxAttempts": 1}}}`
	status, out, _ := execute(t, text, "policy", "-policy", "-")
	require.Zero(t, status)
	require.Regexp(t, `(?m)^fetch +3 +300ms \+ attempts\nfetch \(not sent\) +1 +0s \+ attempts\nfetch \(throttled\) +5 +4m0s \+ attempts$`, out)
	require.Regexp(t, `(?m)^4 +fetch \(throttled\) +1m0s`, out)
	require.Contains(t, out, "The delay of fetch (throttled) never grows.\n")
}

func TestYAMLIsTheSameAsJSON(t *testing.T) {
	json := succeed(t, "policy", "-policy", "testdata/fetch.json")
	require.Equal(t, json, succeed(t, "policy", "-policy", "testdata/fetch.yaml"))
	text, err := os.ReadFile("testdata/fetch.yaml")
	require.NoError(t, err)
	status, out, _ := execute(t, string(text), "policy", "-policy", "-")
	require.Zero(t, status)
	require.Equal(t, json, out)
}

func TestEveryPresetAndBudgetIsKnownByName(t *testing.T) {
	listed := succeed(t, "policy", "-list")
	args := []string{"policy"}
	for name := range presets.All() {
		require.Contains(t, listed, name+" ")
		args = append(args, "-policy", name)
	}
	for name := range presets.Budgets() {
		require.Contains(t, listed, name+" ")
		args = append(args, "-policy", name)
	}
	for _, r := range references {
		require.Contains(t, listed, r.name+" ")
	}
	shown := succeed(t, args...)
	for i := 2; i < len(args); i += 2 {
		require.Regexp(t, "(?m)^"+regexp.QuoteMeta(args[i])+" +", shown)
	}
}

// viewOf returns the view of a policy.
func viewOf(t *testing.T, policy string, f policyFlags) view {
	t.Helper()
	c, err := new(terminal).find(policy)
	require.NoError(t, err)
	return newView(c, &f)
}

// delays returns the delays in the given unit.
func (v view) delays(unit time.Duration) (all []float64) {
	for _, r := range v.retries {
		all = append(all, math.Round(1e6*float64(r.delay)/float64(unit))/1e6)
	}
	return all
}

func TestPresetsHaveTheAttemptsAndDelaysOfTheirStandards(t *testing.T) {
	const slot = 51200 * time.Nanosecond // of Ethernet
	sip := []float64{.5, 1, 2, 4, 4, 4, 4, 4, 4, 4}
	for name, want := range map[string]struct {
		attempts int
		unit     time.Duration
		delays   []float64
	}{
		"sip-timer-a":              {7, time.Second, []float64{.5, 1, 2, 4, 8, 16}},
		"sip-timer-e":              {11, time.Second, sip},
		"sip-timer-g":              {11, time.Second, sip},
		"ieee-802.3-truncated-beb": {16, slot, []float64{1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023, 1023, 1023, 1023, 1023}},
	} {
		v := viewOf(t, name, policyFlags{})
		require.Equal(t, count{want.attempts, want.attempts, want.attempts, false}, v.attempts, name)
		require.Equal(t, want.delays, v.delays(want.unit), name)
	}
	require.Equal(t, 31500*time.Millisecond, viewOf(t, "sip-timer-a", policyFlags{}).worst)
	require.Equal(t, 31500*time.Millisecond, viewOf(t, "sip-timer-g", policyFlags{}).worst)
	csma := viewOf(t, "csma-ca-ofdm", policyFlags{retries: 8})
	require.Equal(t, []float64{15, 31, 63, 127, 255, 511, 1023, 1023}, csma.delays(9*time.Microsecond))
}

func TestUntruncatedEthernetDoesNotWrap(t *testing.T) {
	v := viewOf(t, "ethernet-untruncated-beb", policyFlags{retries: 70})
	require.Len(t, v.retries, 70)
	for i := 1; i < 70; i++ {
		require.GreaterOrEqual(t, v.retries[i].delay, v.retries[i-1].delay)
		require.GreaterOrEqual(t, v.retries[i].total.max, v.retries[i-1].total.max)
	}
	require.Greater(t, v.retries[69].delay.Seconds(), 9e9)
}

// The wait is a whole number of slots, with a mean of half the delay. Any base
// and slot can be written as a sequence.
func TestSlottedWaitsReachFromZeroToTheDelay(t *testing.T) {
	base3 := file(t, "base3.yaml", "schedule: {sequence: [2ms, 8ms, 26ms, 80ms]}\njitter: {slotted: 1ms}\nmaxAttempts: 5\n")
	for policy, c := range map[string]struct{ base, slot, most float64 }{
		"ieee-802.3-truncated-beb": {2, 51.2e-6, 1024}, base3: {3, 1e-3, 81},
	} {
		for n, r := range viewOf(t, policy, policyFlags{}).retries {
			most := c.slot * (min(math.Pow(c.base, float64(n+1)), c.most) - 1)
			require.Zero(t, r.wait.min)
			require.InEpsilon(t, most, r.wait.max.Seconds(), 1e-6)
			require.InEpsilon(t, most/2, r.wait.mean.Seconds(), 0.01)
		}
	}
	require.Equal(t, "base3", viewOf(t, base3, policyFlags{}).policy)
}

func TestADeadlineCountsAttemptsThatBeginBefore(t *testing.T) {
	v := viewOf(t, "sip-timer-a", policyFlags{deadline: 10 * time.Second})
	require.Equal(t, count{5, 5, 5, false}, v.within)
	v = viewOf(t, "sip-timer-a", policyFlags{deadline: 7500 * time.Millisecond})
	require.Equal(t, 4, v.within.least, "one that begins with the end has no time")
	v = viewOf(t, "gcs-go-default", policyFlags{deadline: time.Hour})
	require.True(t, v.within.more || v.within.most > 100)
}

func TestANameWithALineBreakStaysOnItsLine(t *testing.T) {
	out := succeed(t, "policy", "-policy", file(t, "p.json", `{"name": "a\nb", "maxAttempts": 2}`))
	require.Contains(t, out, `"a\nb"`)
}

func TestAPictureThatCannotBeWrittenIsAnErrorAndLeavesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.svg")
	long := file(t, "long.json", `{"name": "`+strings.Repeat("x", 2000)+`"}`)
	status, _, err := execute(t, "", with("dip", "-seeds", "1", "-policy", long, "-svg", path)...)
	require.Equal(t, 2, status)
	require.Contains(t, err, "letters, want 1000 or fewer")
	require.NoFileExists(t, path)
}
