package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// small is a dip with few calls, so that a test is fast.
var small = []string{"-capacity", "50", "-rate", "40", "-processes", "4", "-fault-at", "10s", "-horizon", "80s", "-seeds", "2"}

// with returns the arguments of a command for the small dip.
func with(command string, args ...string) []string {
	return append(append([]string{command}, small...), args...)
}

// simulated runs a command with -json.
func simulated(t *testing.T, args ...string) (out trialJSON) {
	t.Helper()
	text := succeed(t, append(args, "-json")...)
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return out
}

// policiesOf returns the names of the policies of a trial.
func policiesOf(out trialJSON) (all []string) {
	for _, r := range out.Results {
		all = append(all, r.Client)
	}
	return all
}

func TestTheReferencesAreAlwaysShown(t *testing.T) {
	require.Equal(t, []string{"none", "naive", "default"}, policiesOf(simulated(t, with("dip")...)))
	require.Equal(t, []string{"none", "naive", "default", "full jitter", "fetch"},
		policiesOf(simulated(t, with("dip", "-policy", "testdata/fetch.json", "-policy", "naive", "-peer", "full jitter")...)))
}

func TestAllPeersAreThoseThatAreNotThereAlready(t *testing.T) {
	all := policiesOf(simulated(t, with("dip", "-seeds", "1", "-peer", "all")...))
	require.Len(t, all, 3+33)
	require.NotContains(t, all, "no retries")
	require.NotContains(t, all, "default (peer)")
	require.Contains(t, policiesOf(simulated(t, with("dip", "-seeds", "1", "-peer", "default")...)), "default (peer)")
}

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	first := succeed(t, with("dip", "-json")...)
	require.Equal(t, first, succeed(t, with("dip", "-json")...))
	require.NotEqual(t, first, succeed(t, with("dip", "-json", "-seed", "7")...))
}

func TestATableHasEveryFigureWithItsError(t *testing.T) {
	out := succeed(t, with("dip")...)
	head := strings.Fields(strings.SplitN(out, "\n", 2)[0])
	require.Equal(t, strings.Fields("policy success % amplification peak peak/100ms recovery s lost wasted added p50 ms added p99 ms"), head)
	require.Regexp(t, `(?m)^none .*± .*± `, out)
	require.Regexp(t, `(?m)^naive .* never `, out)
	require.Regexp(t, `(?m)^default: recovers from a 10s dip to 30 % of capacity at 80 % load in `, out)
	require.Regexp(t, `(?m)^warning: the queue of the service has no limit: with more than 50 in it`, out)
}

func TestAFigureHasTheDigitsThatItsErrorLeaves(t *testing.T) {
	for want, f := range map[string]sim.Figure{
		"0":                   {},
		"1":                   {Mean: 1.00001, SE: 0.00003},
		"32871":               {Mean: 32871.3434, SE: 1e-9},
		"0.94772":             {Mean: 0.947715},
		"12.30 ± 0.45":        {Mean: 12.301, SE: 0.449},
		"665480 ± 617":        {Mean: 665480, SE: 617},
		"3.9632 ± 0.0004":     {Mean: 3.9632, SE: 0.00041},
		"0.000100 ± 0.000019": {Mean: 0.0001, SE: 0.000019},
	} {
		require.Equal(t, want, figure(f, 1))
	}
	require.Equal(t, "recovers up to 33.5 % load, and not at 34.2 % load", cliff(sim.CliffLoad, sim.Cliff{Safe: 0.335, Unsafe: 0.3421}))
}

func TestRetriesWithoutBudgetNeverRecoverAndTheDefaultDoes(t *testing.T) {
	out := simulated(t, with("dip")...)
	require.NotNil(t, out.Results[0].Recovery)
	require.Nil(t, out.Results[1].Recovery)
	require.Equal(t, 2, out.Results[1].Never)
	require.NotNil(t, out.Results[2].Recovery)
	require.Len(t, out.Results[2].Series, 80)
	require.Empty(t, out.FailedGates)
}

func TestGatesWorkInAShellIf(t *testing.T) {
	for gate, want := range map[string]string{
		"-policy naive -must-recover 60s":                            "1",
		"-policy default -must-recover 60s":                          "held",
		"-must-recover 60s":                                          "held", // the default is judged
		"-must-recover 1ms":                                          "1",
		"-policy naive -max-amplification 1.5":                       "1",
		"-policy default -max-amplification 1.5":                     "held",
		"-policy none -min-success 0.99":                             "1",
		"-policy none -min-success 0.5":                              "held",
		"-policy testdata/fetch.json -policy naive -min-success 0.5": "1",
		"-min-succes 0.5":                                            "2",
		"-policy /no/such/file":                                      "2",
	} {
		script := `if "$0" "$@" >/dev/null 2>&1; then echo held; else echo $?; fi`
		args := append([]string{"-c", script, program}, with("dip", strings.Fields(gate)...)...)
		out, err := exec.Command("sh", args...).Output()
		require.NoError(t, err)
		require.Equal(t, want, strings.TrimSpace(string(out)), gate)
	}
}

func TestAGateThatFailsSaysWhy(t *testing.T) {
	status, out, err := execute(t, "", with("dip", "-policy", "naive", "-max-amplification", "1.5", "-must-recover", "60s", "-min-success", "0.9")...)
	require.Equal(t, 1, status)
	require.Contains(t, out, "naive: never recovers from a 10s dip")
	require.Regexp(t, `^gate: naive: amplification \d\.\d\dx > 1\.50x\ngate: naive: never recovers .*\ngate: naive: success \d+\.\d\d % < 90\.00 %\n$`, err)

	status, out, _ = execute(t, "", with("dip", "-policy", "naive", "-min-success", "0.9", "-json")...)
	require.Equal(t, 1, status)
	var decoded trialJSON
	require.NoError(t, json.Unmarshal([]byte(out), &decoded))
	require.Len(t, decoded.FailedGates, 1)
}

func TestAPolicyThatServesNobodyPassesNoGate(t *testing.T) {
	patient := file(t, "patient.json", `{"maxAttempts": -1, "maxElapsed": -1, "schedule": "1s"}`)
	down := []string{"run", "-seeds", "1", "-rate", "10", "-capacity", "100", "-horizon", "60s", "-fault-at", "1s", "-fault", "58s", "-down"}
	status, out, err := execute(t, "", append(down, "-policy", patient, "-min-success", "0.9")...)
	require.Equal(t, 1, status, out)
	require.Regexp(t, `^gate: patient: success \d+\.\d\d % < 90\.00 %\n$`, err)
}

func TestAPartOfTheServiceMayBeDown(t *testing.T) {
	args := with("dip", "-depth", "0", "-down", "-part", "0.1", "-seeds", "1")
	require.Contains(t, succeed(t, args...), "default: recovers from an outage of 10s of 10 % of the service at 80 % load")
	require.Contains(t, simulated(t, args...).Conditions, "10 % of it down for 10s")
}

func TestWarningsNeedNoRun(t *testing.T) {
	out := succeed(t, "dip", "-warn-only", "-policy", "naive", "-seeds", "100000")
	require.NotContains(t, out, "success")
	require.Contains(t, out, "warning: naive: a load of 80 % x (1 + 3 retries per call) = 320 % of capacity")
}

func TestTheCliffIsFound(t *testing.T) {
	out := simulated(t, with("dip", "-policy", "naive", "-seeds", "1", "-find-cliff", "dip")...)
	require.Len(t, out.Verdicts, 2)
	require.Regexp(t, `^naive: recovers up to a fault of .*s, and not at a fault of .*s$`, out.Verdicts[1])
}

func TestAUsersOwnService(t *testing.T) {
	out := simulated(t, "run", "-trace", "testdata/trace.csv", "-p50", "5ms", "-p99", "50ms", "-capacity", "400", "-fault", "0", "-queue", "100",
		"-timeout", "500ms", "-processes", "3", "-layers", "2", "-errors", "0.05", "-deadline", "2s", "-seeds", "2", "-policy", "testdata/fetch.yaml")
	require.Contains(t, out.Conditions, "recorded traffic, 3 processes, 2 layers, capacity ")
	require.Contains(t, out.Conditions, "queue 100, attempt timeout 500ms, deadline 2s, 5 % errors")
	fetch := out.Results[3]
	require.Equal(t, "fetch", fetch.Client)
	require.Len(t, fetch.Amplification, 2)
	require.Greater(t, fetch.Success.Mean, out.Results[0].Success.Mean)
	require.Nil(t, fetch.Recovery, "there is nothing to recover from")

	out = simulated(t, "run", "-users", "50", "-think", "1s", "-service", "10ms", "-fault-at", "5s", "-fault", "5s", "-down", "-horizon", "30s", "-seeds", "1")
	require.Contains(t, out.Conditions, "50 users who think for 1s, capacity 100/s, attempt timeout 1s, down for 5s")
}

func TestAChainMultipliesWithoutMarks(t *testing.T) {
	args := []string{"chain", "-seeds", "1", "-every", "100ms"}
	marked := simulated(t, args...)
	require.InDelta(t, 4, marked.Results[1].Amplification[2].Mean, 1e-9)
	unmarked := simulated(t, append(args, "-no-mark")...)
	require.InDelta(t, 64, unmarked.Results[1].Amplification[2].Mean, 1e-9)
	require.LessOrEqual(t, unmarked.Results[2].Amplification[2].Mean, 1.1)

	peer := simulated(t, append(args, "-no-mark", "-peer", "mark on exhausted")...)
	require.InDelta(t, 4, peer.Results[3].Amplification[2].Mean, 1e-9, "a peer has its mark by its name")

	short := simulated(t, append(args, "-fault", "1m")...)
	require.InDelta(t, 0, short.Results[0].Success.Mean, 1e-9, "the figures are of the fault, however long it is")

	var several []trialJSON
	text := succeed(t, append(args, "-p", "0.5,0,1", "-json")...)
	require.NoError(t, json.Unmarshal([]byte(text), &several))
	require.Len(t, several, 3)
	require.InDelta(t, 1, several[0].Results[0].Success.Mean, 1e-9)
	require.Contains(t, succeed(t, append(args, "-p", "0,1")...), "hop 3")
}

func TestAHerdIsServedSoonerWithJitter(t *testing.T) {
	out := simulated(t, "herd", "-seeds", "2", "-clients", "200", "-peer", "exponential", "-peer", "full jitter")
	require.Equal(t, []string{"none", "naive", "default", "exponential", "full jitter"}, policiesOf(out))
	require.Less(t, out.Results[4].Drain.Mean, out.Results[3].Drain.Mean)
	require.Contains(t, succeed(t, "herd", "-seeds", "1"), "last served s")
}

func TestAJobIsPacedByWhoHearsThatItIsTooMuch(t *testing.T) {
	out := simulated(t, "ratelimit", "-seeds", "1", "-peer", "HTTP default", "-policy", "extra-go-retryablehttp")
	require.Equal(t, []string{"none", "naive", "default", "HTTP default", "extra-go-retryablehttp"}, policiesOf(out))
	require.Equal(t, "1000 calls by 50 users, limit 100/s, burst 100", out.Conditions)
	require.InDelta(t, 9, out.Least, 1e-9)
	paced := out.Results[3]
	require.InDelta(t, 1, paced.Success.Mean, 1e-9)
	require.InDelta(t, 9.2, paced.Drain.Mean, .3)
	require.Less(t, paced.Throttled.Mean, .15)
	require.Greater(t, out.Results[0].Throttled.Mean, .85)
	require.Regexp(t, `^extra-go-retryablehttp: does all 1000 calls in \d+\.\d s, \d\.\d\d times the least; success 100\.0 %, amplification \d\.\d\dx$`, out.Verdicts[0])

	text := succeed(t, "ratelimit", "-seeds", "1", "-peer", "HTTP default")
	require.Regexp(t, `^policy +success % +lost +last served s +of the least +attempts per call +refused % +mean s +p99 s\nnone `, text)
	require.Regexp(t, `(?m)^HTTP default +100 +0 +9\.\d+ +1\.0\d `, text)
	require.Regexp(t, `(?m)^default: fails \d+ of the 1000 calls of a job that takes 9\.0 s at the least; success `, text)

	out = simulated(t, "ratelimit", "-seeds", "1", "-users", "5", "-calls", "60", "-limit", "10", "-burst", "10", "-retry-after", "1s", "-fault-at", "2s", "-fault", "1s", "-down")
	require.Equal(t, "60 calls by 5 users, limit 10/s, burst 10, rejections ask for 1s, down for 1s", out.Conditions)
	require.InDelta(t, 5, out.Least, 1e-9)
}

func TestAJobMustPassTheGates(t *testing.T) {
	status, _, err := execute(t, "", "ratelimit", "-seeds", "1", "-min-success", "0.99", "-max-amplification", "1.15")
	require.Equal(t, 1, status)
	require.Regexp(t, `^gate: default: success \d+\.\d\d % < 99\.00 %\n$`, err)
	patient := file(t, "patient.json", `{"name": "patient", "maxAttempts": -1, "schedule": "1s"}`)
	succeed(t, "ratelimit", "-seeds", "1", "-policy", patient, "-min-success", "0.99")
}

// A server that takes overload for a caller who exceeds a rate.
func TestALyingServerIsBelieved(t *testing.T) {
	args := with("dip", "-queue", "10", "-reject-cost", "0.3", "-throttles", "-peer", "Policy + Pacer", "-peer", "Policy + RetryBudget")
	out := simulated(t, args...)
	require.Contains(t, out.Conditions, "queue 10, rejections say too much, attempt timeout 1s")
	pacer, budget := out.Results[3], out.Results[4]
	require.Greater(t, pacer.Success.Mean, budget.Success.Mean)
	require.Less(t, pacer.Wasted.Mean, budget.Wasted.Mean)
}

func TestAnAdaptiveLimitIsAPeerAndInAFile(t *testing.T) {
	mine := file(t, "mine.json", `{"name": "mine", "budget": {"adaptive": {}}}`)
	out := simulated(t, "dip", "-seeds", "1", "-horizon", "60s", "-peer", "Adaptive", "-policy", mine)
	peer, own := out.Results[3], out.Results[4]
	require.Greater(t, own.Success.Mean, out.Results[0].Success.Mean)
	require.Equal(t, peer.Success, own.Success)
	require.Equal(t, peer.Wasted, own.Wasted)
}

func TestEveryModelHasAPicture(t *testing.T) {
	for name, args := range map[string][]string{
		"dip":     with("dip"),
		"chain":   {"chain", "-seeds", "1", "-every", "1s"},
		"failure": {"chain", "-seeds", "1", "-every", "1s", "-p", "0,.5,1"},
		"herd":    {"herd", "-seeds", "2", "-clients", "50", "-peer", "all"},
		"job":     {"ratelimit", "-seeds", "1", "-peer", "all"},
		"free":    {"ratelimit", "-seeds", "1", "-limit", "0"},
		"trace":   {"run", "-trace", "testdata/trace.csv", "-capacity", "500", "-fault", "0", "-seeds", "1"},
		"many":    with("dip", "-peer", "all", "-seeds", "1"),
	} {
		path := filepath.Join(t.TempDir(), name+".svg")
		succeed(t, append(args, "-svg", path)...)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "<?xml"), name)
		require.Equal(t, name == "many", strings.Contains(string(text), "more policies are in the table only"), name)
	}
}
