package backoffmetrics

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
)

// Several panels may change things of one name, and names that are too long to
// be shown are one.
func TestOverridesOfOneNameAreOneSeries(t *testing.T) {
	var m Metrics
	for _, name := range []string{"a", "b"} {
		var panel control.Panel
		for _, policy := range []string{"search", strings.Repeat("x", maxName+1), strings.Repeat("y", maxName+1)} {
			panel.Policy(backoff.Policy{Name: policy})
			require.NoError(t, panel.Set(t.Context(), control.Override{
				Target: control.Target{What: control.Retries, Name: policy}, To: control.Off, Who: "ada", Why: "shard 7",
			}))
		}
		hosts := new(backoff.Breakers)
		panel.Breakers("hosts", hosts)
		hosts.For("k")
		require.NoError(t, panel.Set(t.Context(), control.Override{
			Target: control.Target{What: control.Breakers, Name: "hosts", Key: "k"}, To: "observe", Who: "ada", Why: "shard 7",
		}))
		m.WatchPanel(name, &panel)
	}
	requireOverrides(t, &m,
		Sample{Labels: []string{"what", "breakers", "name", "hosts", "key", "k"}, Value: 2},
		Sample{Labels: []string{"what", "retries", "name", "other"}, Value: 4},
		Sample{Labels: []string{"what", "retries", "name", "search"}, Value: 2},
	)
	m.WatchPanel("a", nil)
	m.WatchPanel("b", nil)
	requireOverrides(t, &m)
}

// requireOverrides requires the series of overrides.
func requireOverrides(t *testing.T, m *Metrics, want ...Sample) {
	t.Helper()
	for _, f := range m.Families() {
		if f.Name == "backoff_overrides" {
			require.Equal(t, want, f.Samples)
			return
		}
	}
	t.Error("there is no such family")
}
