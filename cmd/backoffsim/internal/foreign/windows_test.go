package foreign_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
)

// unlimited is as many retries as these tests ask for.
const unlimited = 5000

func TestWindowBudgetsGrantByTheirRule(t *testing.T) {
	kubernetes := func(percent, floor int) backoff.Budget {
		b := foreign.NewKubernetes()
		b.Percent, b.MinRetryCount = percent, floor
		return b
	}
	for _, c := range []struct {
		budget backoff.Budget
		calls  int
		want   int
	}{
		{foreign.NewDotNet(), 0, unlimited}, // not enforced below 10 requests
		{foreign.NewDotNet(), 9, unlimited},
		{foreign.NewDotNet(), 10, 1},
		{foreign.NewDotNet(), 19, 1}, // rounded down
		{foreign.NewDotNet(), 20, 2},
		{foreign.NewDotNet(), 1000, 100},
		{kubernetes(20, 10), 0, 10}, // 10 a second in any case
		{kubernetes(20, 10), 40, 10},
		{kubernetes(20, 10), 800, 200}, // of 1000 requests 200 may be retries
		{kubernetes(20, 0), 4, 1},
		{kubernetes(20, 0), 3, 1},
		{kubernetes(0, 0), 1000, 0},
		{kubernetes(50, 0), 100, 100},
		{kubernetes(100, 0), 1, unlimited},
	} {
		repeat(c.calls, func() { begin(t, c.budget) })
		require.Equal(t, c.want, grants(c.budget, unlimited), "%+v, %d calls", c.budget, c.calls)
	}
}

func TestKubernetesHasAMinimumRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewKubernetes()
		for range 20 {
			require.Equal(t, 10, grants(b, 100))
			time.Sleep(1100 * time.Millisecond)
		}
	})
}
