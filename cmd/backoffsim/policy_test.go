package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
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
	require.Regexp(t, `(?m)^70 +sip-timer-a `, succeed(t, "policy", "-policy", "sip-timer-a", "-retries", "70"))
}

func TestAClassWithLimitsOfItsOwnIsListedAfterItsPolicy(t *testing.T) {
	const text = `{"name": "fetch", "maxAttempts": 3, "jitter": "none", "byClass": {
		"throttled": {"maxAttempts": 5, "schedule": {"exponential": {"initial": "1m", "max": "1m"}}}, "notSent": {"maxAttempts": 1}}}`
	status, out, _ := execute(t, text, "policy", "-policy", "-")
	require.Zero(t, status)
	require.Regexp(t, `(?m)^fetch +3 +300ms \+ attempts\nfetch \(not sent\) +1 +0s \+ attempts\nfetch \(throttled\) +5 +4m0s \+ attempts$`, out)
	require.Regexp(t, `(?m)^4 +fetch \(throttled\) +1m0s`, out)
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
	for name := range foreign.Budgets() {
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

func TestADeadlineCountsAttemptsThatBeginBefore(t *testing.T) {
	v := viewOf(t, "sip-timer-a", policyFlags{deadline: 10 * time.Second})
	require.Equal(t, count{5, 5, 5, false}, v.within)
	v = viewOf(t, "sip-timer-a", policyFlags{deadline: 7500 * time.Millisecond})
	require.Equal(t, 4, v.within.least, "one that begins with the end has no time")
	v = viewOf(t, "gcs-go-default", policyFlags{deadline: time.Hour})
	require.True(t, v.within.more || v.within.most > 100)
}

func TestAttemptsAreThoseThatDoMakes(t *testing.T) {
	policies := maps.Collect(presets.All())
	policies["a last wait that is shortened"] = backoff.Policy{MaxElapsed: time.Second, ShortenLastWait: true, MaxAttempts: 50}
	for name, p := range policies {
		shown := countAttempts(p, 20*time.Second)
		for u, want := range map[float64]int{0: shown.most, 1 - 1e-12: shown.least} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				p, attempts := p, 0
				p.Rand = func() float64 { return u }
				require.Error(t, p.Do(ctx, func(context.Context) error {
					if attempts++; attempts == countedAttempts {
						return backoff.Permanent(errDown)
					}
					return errDown
				}))
				require.Equal(t, want, attempts, name)
			})
		}
	}
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
