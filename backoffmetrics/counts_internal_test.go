package backoffmetrics

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// The diagnosis and the alerts of contrib/dashboards mean the same reasons.
func TestUnrescuedCallsAreThoseOfTheAlerts(t *testing.T) {
	var o operation
	var names []string
	for reason := range backoff.Reason(reasons) {
		before := o.totals()
		o.count(&backoff.Event{Kind: backoff.EventGiveUp, Reason: reason, Attempt: 1})
		got := o.totals().minus(before)
		require.EqualValues(t, 1, got.failed, reason)
		if got.unrescued > 0 {
			names = append(names, reason.String())
		}
	}
	require.Equal(t, "attempts|elapsed|retry after|deadline|overloaded|budget", strings.Join(names, "|"))
	alerts, err := os.ReadFile("../contrib/dashboards/alerts.yaml")
	require.NoError(t, err)
	selector := `backoff_failures_total{reason=~"` + strings.Join(names, "|") + `"}`
	require.Equal(t, strings.Count(string(alerts), "backoff_failures_total{"), strings.Count(string(alerts), selector))
	require.Positive(t, strings.Count(string(alerts), selector))
}
