package presets_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

// configuration is what all configurations of other systems have.
type configuration interface {
	Policy() (backoff.Policy, error)
}

// What the zero of each field becomes, and what the values around it become.
// The bounds are those of the waits; the last one also bounds the waits after
// it.
var configurations = []struct {
	name     string
	config   configuration
	attempts int
	elapsed  time.Duration
	bounds   string
}{
	{"the default of an exporter", presets.OTLPRetry{true, 5 * time.Second, 30 * time.Second, time.Minute}, -1, time.Minute,
		"[2.5s,7.5s] [3.75s,11.25s] [5.625s,16.875s] [8.4375s,25.3125s] [12.65625s,37.96875s] [15s,45s] [15s,45s]"},
	{"retries off", presets.OTLPRetry{false, 5 * time.Second, 30 * time.Second, time.Minute}, 1, 0, ""},
	{"all zeros but Enabled", presets.OTLPRetry{Enabled: true}, -1, 0, "[0s,0s] [0s,0s]"},
	{"no longest interval", presets.OTLPRetry{Enabled: true, InitialInterval: time.Second}, -1, 0, "[500ms,1.5s] [500ms,1.5s]"},
	{"a first interval beyond the longest", presets.OTLPRetry{Enabled: true, InitialInterval: 4 * time.Second, MaxInterval: 2 * time.Second}, -1, 0,
		"[2s,6s] [1s,3s] [1s,3s]"},

	{"the default of the Collector", presets.CollectorRetry{true, 5 * time.Second, 0.5, 1.5, 30 * time.Second, 5 * time.Minute}, -1, 5 * time.Minute,
		"[2.5s,7.5s] [3.75s,11.25s] [5.625s,16.875s] [8.4375s,25.3125s] [12.65625s,37.96875s] [15s,45s]"},
	{"nothing set", presets.CollectorRetry{}, 1, 0, ""},
	{"no jitter", presets.CollectorRetry{Enabled: true, InitialInterval: time.Second, Multiplier: 2, MaxInterval: 4 * time.Second}, -1, 0,
		"[1s,1s] [2s,2s] [4s,4s] [4s,4s]"},
	{"full jitter", presets.CollectorRetry{Enabled: true, InitialInterval: time.Second, RandomizationFactor: 1, Multiplier: 1, MaxInterval: time.Second}, -1, 0,
		"[0s,2s] [0s,2s]"},
	{"no multiplier", presets.CollectorRetry{Enabled: true, InitialInterval: time.Second, MaxInterval: time.Minute}, -1, 0, "[1s,1s] [1s,1s]"},

	{"a multiplier below 1", presets.CollectorRetry{Enabled: true, InitialInterval: 4, Multiplier: 0.5, MaxInterval: 3}, -1, 0,
		"[4ns,4ns] [2ns,2ns] [1ns,1ns] [4ns,4ns]"},

	{"the default", presets.CenkaltiBackoff{500 * time.Millisecond, 0.5, 1.5, time.Minute, 15 * time.Minute}, -1, 15 * time.Minute,
		"[250ms,750ms] [375ms,1.125s]"},
	{"nothing set", presets.CenkaltiBackoff{}, -1, 0, "[0s,0s] [0s,0s]"},
	{"a time that is shorter than a wait", presets.CenkaltiBackoff{time.Minute, 0, 2, time.Hour, time.Second}, -1, time.Second, "[1m,1m] [2m,2m]"},
	{"a spread beyond all of it", presets.CenkaltiBackoff{time.Second, 2, 1, time.Second, 0}, -1, 0, "[0s,3s] [0s,3s]"},
	{"a longest interval below the second", presets.CenkaltiBackoff{time.Second, 0, 0.5, 400 * time.Millisecond, 0}, -1, 0, "[1s,1s] [400ms,400ms] [200ms,200ms]"},
	{"a multiplier that leaves nothing", presets.CenkaltiBackoff{time.Second, 0, 1e-12, time.Second, 0}, -1, 0, "[1s,1s] [1s,1s]"},

	{"DefaultRetry", presets.KubernetesBackoff{10 * time.Millisecond, 1, 0.1, 5, 0}, 5, 0, "[10ms,11ms] [10ms,11ms] [10ms,11ms] [10ms,11ms]"},
	{"DefaultBackoff", presets.KubernetesBackoff{10 * time.Millisecond, 5, 0.1, 4, 0}, 4, 0, "[10ms,11ms] [50ms,55ms] [250ms,275ms]"},
	{"one step", presets.KubernetesBackoff{time.Second, 2, 0.1, 1, 0}, 1, 0, ""},
	{"no delay", presets.KubernetesBackoff{0, 2, 0.1, 3, time.Second}, 3, 0, "[0s,0s] [0s,0s]"},
	{"no factor", presets.KubernetesBackoff{time.Second, 0, 0, 4, 0}, 4, 0, "[1s,1s] [1s,1s] [1s,1s]"},
	{"no factor, and a cap that does nothing", presets.KubernetesBackoff{time.Second, 0, 0, 4, time.Millisecond}, 4, 0, "[1s,1s] [1s,1s] [1s,1s]"},
	{"a factor below 1", presets.KubernetesBackoff{time.Second, 0.5, 0, 4, 0}, 4, 0, "[1s,1s] [500ms,500ms] [250ms,250ms]"},
	{"a factor below 1, and a cap below all delays", presets.KubernetesBackoff{time.Second, 0.5, 0, 4, 100 * time.Millisecond}, 1, 0, ""},
	{"a factor below 1, and a cap below the first", presets.KubernetesBackoff{time.Second, 0.5, 0, 3, 600 * time.Millisecond}, 3, 0, "[1s,1s] [500ms,500ms]"},
	{"a cap that a delay reaches", presets.KubernetesBackoff{time.Second, 2, 0, 9, 4 * time.Second}, 3, 0, "[1s,1s] [2s,2s]"},
	{"a cap that a delay would pass", presets.KubernetesBackoff{time.Second, 2, 0, 9, 3 * time.Second}, 2, 0, "[1s,1s]"},
	{"a cap that is never reached", presets.KubernetesBackoff{time.Second, 2, 0, 3, time.Hour}, 3, 0, "[1s,1s] [2s,2s]"},
	{"a cap below the delay", presets.KubernetesBackoff{time.Second, 2, 0, 9, time.Millisecond}, 1, 0, ""},
	{"no cap by a negative one", presets.KubernetesBackoff{time.Second, 2, 0, 3, -1}, 3, 0, "[1s,1s] [2s,2s]"},
	{"no jitter by a negative one", presets.KubernetesBackoff{time.Second, 1, -1, 2, 0}, 2, 0, "[1s,1s]"},

	{"nothing set", presets.AWSRetry{}, 3, 0, "[0s,2s] [0s,4s]"},
	{"standard", presets.AWSRetry{"5", "standard"}, 5, 0, "[0s,2s] [0s,4s] [0s,8s] [0s,16s]"},
	{"adaptive", presets.AWSRetry{"2", "adaptive"}, 2, 0, "[0s,2s]"},
	{"zero attempts", presets.AWSRetry{MaxAttempts: "0"}, 3, 0, "[0s,2s] [0s,4s]"},
	{"one attempt", presets.AWSRetry{MaxAttempts: "1"}, 1, 0, ""},
	{"a negative number", presets.AWSRetry{MaxAttempts: "-1"}, -1, 0, "[0s,2s] [0s,4s]"},
}

func TestAConfigurationMeansWhatItMeansToItsSystem(t *testing.T) {
	for _, c := range configurations {
		p, err := c.config.Policy()
		require.NoError(t, err, "%T: %s", c.config, c.name)
		require.NoError(t, p.Validate(), "%T: %s", c.config, c.name)
		require.Equal(t, c.attempts, p.MaxAttempts, "%T: %s", c.config, c.name)
		require.Equal(t, c.elapsed, p.MaxElapsed, "%T: %s", c.config, c.name)

		bounds := intervals(t, c.bounds)
		if p.MaxAttempts > 0 && p.MaxAttempts < 5 {
			require.Len(t, bounds, p.MaxAttempts-1, "%T: %s: a wait for each retry", c.config, c.name)
		}
		for i, bound := range bounds {
			delay := p.Schedule.Delay(i + 1)
			require.InDelta(t, bound[0], p.Jitter(delay, 0, 0), float64(float), "%T: %s: retry %d", c.config, c.name, i+1)
			require.InDelta(t, bound[1], p.Jitter(delay, 0, top), float64(float), "%T: %s: retry %d", c.config, c.name, i+1)
		}
	}
}

// The values in the order of the fields, each after one that is right.
var wrongConfigurations = []struct {
	config configuration
	want   string
}{
	{presets.OTLPRetry{InitialInterval: -5 * time.Second}, "OTLPRetry.InitialInterval is -5s, want 0 or more"},

	{presets.CollectorRetry{RandomizationFactor: 1.5}, "CollectorRetry.RandomizationFactor is 1.5, want 0 to 1"},
	{presets.CollectorRetry{RandomizationFactor: math.NaN()}, "CollectorRetry.RandomizationFactor is NaN, want 0 to 1"},
	{presets.CollectorRetry{Multiplier: -0.5}, "CollectorRetry.Multiplier is -0.5, want 0 (for no growth) or more"},
	{presets.CenkaltiBackoff{Multiplier: math.NaN()}, "CenkaltiBackoff.Multiplier is NaN, want 0 (for no growth) or more"},
	{presets.CenkaltiBackoff{RandomizationFactor: math.Inf(1)}, "CenkaltiBackoff.RandomizationFactor is +Inf, want 0 or more"},
	{presets.CollectorRetry{MaxInterval: -1}, "CollectorRetry.MaxInterval is -1ns, want 0 or more"},
	{presets.CollectorRetry{MaxElapsedTime: -1}, "CollectorRetry.MaxElapsedTime is -1ns, want 0 or more"},
	{presets.CollectorRetry{InitialInterval: 2 * time.Second, MaxElapsedTime: time.Second},
		"CollectorRetry.MaxElapsedTime is 1s, want 0 (for no limit) or at least the longest interval, 2s"},
	{presets.CollectorRetry{MaxInterval: 2 * time.Second, MaxElapsedTime: time.Second},
		"CollectorRetry.MaxElapsedTime is 1s, want 0 (for no limit) or at least the longest interval, 2s"},

	{presets.KubernetesBackoff{}, "KubernetesBackoff.Steps is 0, want at least 1"},
	{presets.KubernetesBackoff{Steps: -1}, "KubernetesBackoff.Steps is -1, want at least 1"},
	{presets.KubernetesBackoff{Duration: -1, Steps: 1}, "KubernetesBackoff.Duration is -1ns, want 0 or more"},
	{presets.KubernetesBackoff{Factor: -1, Steps: 1}, "KubernetesBackoff.Factor is -1, want 0 (for no growth) or more"},
	{presets.KubernetesBackoff{Factor: math.NaN(), Steps: 1}, "KubernetesBackoff.Factor is NaN, want 0 (for no growth) or more"},
	{presets.KubernetesBackoff{Factor: math.Inf(1), Steps: 1}, "KubernetesBackoff.Factor is +Inf, want 0 (for no growth) or more"},
	{presets.KubernetesBackoff{Jitter: math.NaN(), Steps: 1}, "KubernetesBackoff.Jitter is NaN, want a number"},
	{presets.KubernetesBackoff{Jitter: math.Inf(1), Steps: 1}, "KubernetesBackoff.Jitter is +Inf, want a number"},

	{presets.AWSRetry{MaxAttempts: "three"}, `AWSRetry.MaxAttempts is "three", want a whole number of at most 32 bits`},
	{presets.AWSRetry{MaxAttempts: "1e3"}, `AWSRetry.MaxAttempts is "1e3", want a whole number of at most 32 bits`},
	{presets.AWSRetry{MaxAttempts: "9999999999"}, `AWSRetry.MaxAttempts is "9999999999", want a whole number of at most 32 bits`},
	{presets.AWSRetry{Mode: "legacy"}, `AWSRetry.Mode is "legacy", want "standard" or "adaptive"`},
	{presets.AWSRetry{Mode: "Standard"}, `AWSRetry.Mode is "Standard", want "standard" or "adaptive"`},
}

func TestAConfigurationThatMakesNoSenseIsRefusedByItsField(t *testing.T) {
	for _, c := range wrongConfigurations {
		p, err := c.config.Policy()
		require.EqualError(t, err, "backoff: presets."+c.want)
		require.Zero(t, p.MaxAttempts, "no policy comes with an error")
		require.Nil(t, p.Schedule)
	}
}

// A client's quota is its own, and the adaptive mode also limits first attempts.
func TestAModeOfTheAWSSDKsBringsItsBudget(t *testing.T) {
	first, err := presets.AWSRetry{}.Policy()
	require.NoError(t, err)
	second, err := presets.AWSRetry{}.Policy()
	require.NoError(t, err)
	require.IsType(t, &presets.AWSQuota{}, first.Budget)
	require.NotSame(t, first.Budget, second.Budget)

	adaptive, err := presets.AWSRetry{Mode: "adaptive"}.Policy()
	require.NoError(t, err)
	require.IsType(t, backoff.JoinBudgets(), adaptive.Budget)
}

// No configuration panics, makes a policy that Validate refuses, or one that
// has the default attempts of the library, which no other system has.
func FuzzConfigurations(f *testing.F) {
	f.Add(true, int64(5e9), int64(30e9), int64(60e9), 0.5, 1.5, 4, "3", "standard")
	f.Add(false, int64(0), int64(0), int64(0), 0.0, 0.0, 0, "", "")
	f.Add(true, int64(-1), int64(math.MaxInt64), int64(math.MinInt64), math.NaN(), math.Inf(1), math.MaxInt, "-1", "adaptive")
	f.Add(true, int64(math.MaxInt64), int64(math.MaxInt64), int64(1), math.MaxFloat64, 1+1e-12, math.MaxInt, "2147483647", "legacy")
	f.Add(true, int64(1), int64(math.MaxInt64), int64(1), 1.0, 1+1e-12, math.MaxInt, "+1", "x")
	f.Fuzz(func(t *testing.T, on bool, initial, longest, elapsed int64, spread, factor float64, steps int, attempts, mode string) {
		for _, c := range []configuration{
			presets.OTLPRetry{on, time.Duration(initial), time.Duration(longest), time.Duration(elapsed)},
			presets.CollectorRetry{on, time.Duration(initial), spread, factor, time.Duration(longest), time.Duration(elapsed)},
			presets.CenkaltiBackoff{time.Duration(initial), spread, factor, time.Duration(longest), time.Duration(elapsed)},
			presets.KubernetesBackoff{time.Duration(initial), factor, spread, steps, time.Duration(longest)},
			presets.AWSRetry{attempts, mode},
		} {
			p, err := c.Policy()
			if err != nil {
				require.Nil(t, p.Schedule)
				require.True(t, strings.HasPrefix(err.Error(), "backoff: presets."), err)
				require.NotContains(t, err.Error(), "\n")
				continue
			}
			require.NoError(t, p.Validate(), "%#v", c)
			require.NotZero(t, p.MaxAttempts, "%#v", c)
			for _, retry := range []int{1, 2, 3, 100, math.MaxInt} {
				for _, u := range []float64{0, 0.5, top} {
					if p.Schedule != nil {
						require.GreaterOrEqual(t, p.Schedule.Delay(retry), time.Duration(0), "%#v", c)
						require.GreaterOrEqual(t, p.Jitter(p.Schedule.Delay(retry), 0, u), time.Duration(0), "%#v", c)
					}
				}
			}
		}
	})
}
