package presets_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

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
