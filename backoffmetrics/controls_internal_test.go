package backoffmetrics

import (
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
	m.WatchPanel("panel", nil)
	require.Nil(t, m.pageData().Controls)
}

func TestThePageSaysWhichProcessItIsOf(t *testing.T) {
	p := thisProcess()
	require.Equal(t, "backoffmetrics.test", p.Program)
	require.Positive(t, p.PID)
	require.NotEmpty(t, p.Host)
	require.NotEmpty(t, p.Go)
	require.Positive(t, p.Started)
}
