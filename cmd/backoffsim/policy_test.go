package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
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
		_, out, _ = execute(t, text, "policy", "-json", "-policy", "-")
		require.Equal(t, never, strings.Contains(out, `"neverGrows": true`), text)
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
	json := succeed(t, "policy", "-json", "-policy", "testdata/fetch.json")
	require.Equal(t, json, succeed(t, "policy", "-json", "-policy", "testdata/fetch.yaml"))
	text, err := os.ReadFile("testdata/fetch.yaml")
	require.NoError(t, err)
	status, out, _ := execute(t, string(text), "policy", "-json", "-policy", "-")
	require.Zero(t, status)
	require.Equal(t, json, out)
}

func TestEveryPresetAndBudgetIsKnownByName(t *testing.T) {
	listed := succeed(t, "policy", "-list")
	args := []string{"policy", "-json"}
	classes := 0
	for name, p := range presets.All() {
		require.Contains(t, listed, name+" ")
		args = append(args, "-policy", name)
		classes += len(p.ByClass)
	}
	for name := range presets.Budgets() {
		require.Contains(t, listed, name+" ")
		args = append(args, "-policy", name)
	}
	for _, r := range references {
		require.Contains(t, listed, r.name+" ")
	}
	require.Len(t, viewsOf(t, args...), len(args)/2-1+classes)
}

// viewsOf runs the program and decodes its JSON.
func viewsOf(t *testing.T, args ...string) []viewed {
	t.Helper()
	var out struct{ Policies []viewed }
	require.NoError(t, json.Unmarshal([]byte(succeed(t, args...)), &out))
	return out.Policies
}

// A viewed is a view as decoded from JSON.
type viewed struct {
	Policy      string
	MaxAttempts int
	Attempts    count
	Within      count    `json:"withinDeadline"`
	Worst       *float64 // seconds
	Retries     []struct {
		Retry       int
		Delay       float64
		Wait, Total struct{ Min, Mean, Max float64 }
	}
}

// one returns the view of the only policy.
func one(t *testing.T, args ...string) viewed {
	t.Helper()
	all := viewsOf(t, append([]string{"policy", "-json"}, args...)...)
	require.Len(t, all, 1)
	return all[0]
}

// delays returns the delays in the given unit.
func (v viewed) delays(unit time.Duration) (all []float64) {
	for _, r := range v.Retries {
		all = append(all, math.Round(1e6*r.Delay/unit.Seconds())/1e6)
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
		v := one(t, "-policy", name)
		require.Equal(t, count{Least: want.attempts, Mean: want.attempts, Most: want.attempts}, v.Attempts, name)
		require.Equal(t, want.delays, v.delays(want.unit), name)
	}
	require.InDelta(t, 31.5, *one(t, "-policy", "sip-timer-a").Worst, 1e-9)
	require.InDelta(t, 31.5, *one(t, "-policy", "sip-timer-g").Worst, 1e-9)
	csma := one(t, "-policy", "csma-ca-ofdm", "-retries", "8")
	require.Equal(t, []float64{15, 31, 63, 127, 255, 511, 1023, 1023}, csma.delays(9*time.Microsecond))
}

func TestUntruncatedEthernetDoesNotWrap(t *testing.T) {
	v := one(t, "-policy", "ethernet-untruncated-beb", "-retries", "70")
	require.Len(t, v.Retries, 70)
	for i := 1; i < 70; i++ {
		require.GreaterOrEqual(t, v.Retries[i].Delay, v.Retries[i-1].Delay)
		require.GreaterOrEqual(t, v.Retries[i].Total.Max, v.Retries[i-1].Total.Max)
	}
	require.Greater(t, v.Retries[69].Delay, 9e9)
}

// The wait is a whole number of slots, with a mean of half the delay. Any base
// and slot can be written as a sequence.
func TestSlottedWaitsReachFromZeroToTheDelay(t *testing.T) {
	base3 := file(t, "base3.yaml", "schedule: {sequence: [2ms, 8ms, 26ms, 80ms]}\njitter: {slotted: 1ms}\nmaxAttempts: 5\n")
	for policy, c := range map[string]struct{ base, slot, most float64 }{
		"ieee-802.3-truncated-beb": {2, 51.2e-6, 1024}, base3: {3, 1e-3, 81},
	} {
		for n, r := range one(t, "-policy", policy).Retries {
			most := c.slot * (min(math.Pow(c.base, float64(n+1)), c.most) - 1)
			require.Zero(t, r.Wait.Min)
			require.InEpsilon(t, most, r.Wait.Max, 1e-6)
			require.InEpsilon(t, most/2, r.Wait.Mean, 0.01)
		}
	}
	require.Equal(t, "base3", one(t, "-policy", base3).Policy)
}

func TestADeadlineCountsAttemptsThatBeginBefore(t *testing.T) {
	v := one(t, "-policy", "sip-timer-a", "-deadline", "10s")
	require.Equal(t, count{Least: 5, Mean: 5, Most: 5}, v.Within)
	v = one(t, "-policy", "sip-timer-a", "-deadline", "7500ms")
	require.Equal(t, 4, v.Within.Least, "one that begins with the end has no time")
	v = one(t, "-policy", "sip-timer-a", "-deadline", "10s", "-attempt", "2s")
	require.Equal(t, 4, v.Within.Least, "at 0, 2.5, 5.5 and 9.5 s")
	v = one(t, "-policy", "testdata/fetch.json", "-deadline", "3s", "-attempt", "1h")
	require.Equal(t, count{Least: 2, Mean: 2, Most: 2}, v.Within, "the attempt timeout of 2 s cuts an hour")
}

// The command counts attempts by itself, so the count is compared with the
// loop.
func TestAttemptsAreThoseOfTheLoop(t *testing.T) {
	const deadline = 20 * time.Second
	policies := maps.Collect(presets.All())
	policies["a last wait that is shortened"] = presets.GCSNode(-1, 0, 0, 10*time.Second)
	policies["beside an attempt timeout"] = backoff.Policy{MaxElapsed: time.Second, AttemptTimeout: time.Second, ShortenLastWait: true}
	for name, policy := range policies {
		f := policyFlags{deadline: deadline}
		v := newView(candidate{name: name, policy: policy}, &f)
		low, high := loop(t, policy, deadline, 0), loop(t, policy, deadline, 1-1e-12)
		if v.Within.More {
			high, low = max(low, high), min(low, high)
			require.Equal(t, v.Within.Least, low, name)
			require.Greater(t, high, countedRetries, name)
			continue
		}
		require.Equal(t, []int{v.Within.Least, v.Within.Most}, []int{min(low, high), max(low, high)}, name)
	}
}

// loop counts the attempts of a real call that always fails, with the same
// random number for all waits.
func loop(t *testing.T, policy backoff.Policy, deadline time.Duration, u float64) (n int) {
	synctest.Test(t, func(*testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		policy.Rand = func() float64 { return u }
		_ = policy.Do(ctx, func(context.Context) error {
			if n++; n > 2*countedRetries {
				return backoff.Permanent(errors.New("enough"))
			}
			return errors.New("down")
		})
	})
	return n
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
