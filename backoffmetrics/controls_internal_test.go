package backoffmetrics

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
)

func TestThePageShowsWhatIsOverriddenAndWhatCannotBe(t *testing.T) {
	var m Metrics
	for _, name := range []string{"a", "b"} {
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: name, Attempt: 1})
	}
	require.Nil(t, m.pageData().Controls, "nothing is wired up")
	var panel control.Panel
	panel.Policy(backoff.Policy{Name: "b"})
	m.WatchPanel("panel", &panel)
	d := m.pageData()
	require.Empty(t, d.Controls.Overrides)
	require.False(t, d.Operations[0].Switchable)
	require.True(t, d.Operations[1].Switchable)

	require.NoError(t, panel.Set(t.Context(), control.Override{
		Target: control.Target{What: control.Retries, Name: "b"}, To: control.Off, Who: "ada", Why: "shard 7",
	}))
	o := m.pageData().Controls.Overrides[0]
	require.Equal(t, "retries of b: off", o.Text)
	require.Equal(t, "ada", o.Who)
	require.Equal(t, "shard 7", o.Why)
	require.EqualValues(t, time.Hour.Milliseconds(), o.Until-o.Since)
	requireOverrides(t, &m, Sample{Labels: []string{"what", "retries", "name", "b"}, Value: 1})
	m.WatchPanel("panel", nil)
	requireOverrides(t, &m)
	require.Nil(t, m.pageData().Controls)
}

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
		Sample{Labels: []string{"what", "retries", "name", "search"}, Value: 2},
		Sample{Labels: []string{"what", "retries", "name", "other"}, Value: 4},
	)
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

func TestThePageSaysWhichProcessItIsOf(t *testing.T) {
	p := thisProcess()
	require.Equal(t, "backoffmetrics.test", p.Program)
	require.Positive(t, p.PID)
	require.NotEmpty(t, p.Host)
	require.NotEmpty(t, p.Go)
	require.Positive(t, p.Started)
}
