package presets_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

var articleRows = []row{
	{"table-constant-1s", 0, 0, 0,
		"1s 1s 1s 1s 1s 1s 1s 1s",
		"[1s,1s] [1s,1s] [1s,1s] [1s,1s] [1s,1s] [1s,1s] [1s,1s] [1s,1s]"},
	{"table-linear-1s", 0, 0, 0,
		"1s 2s 3s 4s 5s 6s 7s 8s",
		"[1s,1s] [2s,2s] [3s,3s] [4s,4s] [5s,5s] [6s,6s] [7s,7s] [8s,8s]"},
	{"table-exponential-1s", 0, 0, 0,
		"1s 2s 4s 8s 16s 32s 64s 128s",
		"[1s,1s] [2s,2s] [4s,4s] [8s,8s] [16s,16s] [32s,32s] [64s,64s] [128s,128s]"},
	{"canonical-capped-100ms-30s", 0, 0, 0,
		"100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		"[100ms,100ms] [200ms,200ms] [400ms,400ms] [800ms,800ms] [1.6s,1.6s] [3.2s,3.2s] [6.4s,6.4s] [12.8s,12.8s]"},
	{"canonical-capped-factor1.5", 0, 0, 0,
		"100ms 150ms 225ms 337.5ms 506.25ms 759.375ms 1.1390625s 1.70859375s",
		"[100ms,100ms] [150ms,150ms] [225ms,225ms] [337.5ms,337.5ms] [506.25ms,506.25ms] [759.375ms,759.375ms] [1.1390625s,1.1390625s] [1.70859375s,1.70859375s]"},
	{"ts-helper-defaults", 0, 0, 0,
		"100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		"[0us,100ms] [0us,200ms] [0us,400ms] [0us,800ms] [0us,1.6s] [0us,3.2s] [0us,6.4s] [0us,12.8s]"},
	{"ts-example-200ms-5s-equal", 5, 0, 0,
		"200ms 400ms 800ms 1.6s 3.2s 5s 5s 5s",
		"[100ms,200ms] [200ms,400ms] [400ms,800ms] [800ms,1.6s] [1.6s,3.2s] [2.5s,5s] [2.5s,5s] [2.5s,5s]"},
}

func TestTablesHaveNoCap(t *testing.T) {
	linear, exponential := byName(t, "table-linear-1s"), byName(t, "table-exponential-1s")
	require.Equal(t, 1000*time.Second, linear.Delay(1000))
	require.Equal(t, (1<<20)*time.Second, exponential.Delay(21))
}

func TestCanonicalStaysAtItsCap(t *testing.T) {
	for _, factor := range []float64{0, 1.5, 2, 10} {
		p := presets.Canonical(factor)
		for _, retry := range []int{20, 63, 64, 1000} {
			require.Equal(t, 30*time.Second, p.Delay(retry), "factor %v", factor)
		}
	}
	require.Equal(t, presets.Canonical(2).Schedule.Delay(6), presets.Canonical(0).Schedule.Delay(6))
}

func TestZeroPolicyIsWhatTheArticleRecommends(t *testing.T) {
	var zero backoff.Policy
	helper := byName(t, "ts-helper-defaults")
	for retry := range 12 {
		for _, u := range []float64{0, 0.5, top} {
			zero.Rand, helper.Rand = always(u), always(u)
			require.Equal(t, helper.Delay(retry), zero.Delay(retry))
		}
	}

	synctest.Test(t, func(t *testing.T) {
		made, _ := exhaust(t, zero)
		require.GreaterOrEqual(t, made, 3)
		require.LessOrEqual(t, made, 5)
	})
}
