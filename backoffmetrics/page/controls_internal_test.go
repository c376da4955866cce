package page

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// set sets an override, or clears it.
func set(t *testing.T, p *control.Panel, target control.Target, to string) {
	t.Helper()
	if to == "" {
		require.NoError(t, p.Clear(t.Context(), target, "ada", "shard 7"))
		return
	}
	require.NoError(t, p.Set(t.Context(), control.Override{Target: target, To: to, Who: "ada", Why: "shard 7"}))
}

func TestThePageShowsWhatIsOverridden(t *testing.T) {
	m := serve()
	require.Nil(t, m.pageData().Controls, "nothing is wired up")
	var panel control.Panel
	panel.Policy(backoff.Policy{Name: "b"})
	m.panels = []*control.Panel{&panel}
	require.Empty(t, m.pageData().Controls.Overrides)

	set(t, &panel, control.Target{What: control.Retries, Name: "b"}, control.Off)
	o := m.pageData().Controls.Overrides[0]
	require.Equal(t, "retries of b: off", o.Text)
	require.Equal(t, "ada", o.Who)
	require.Equal(t, "shard 7", o.Why)
	require.Equal(t, "Nothing to do. Overridden by hand: retries of b.", headlineText(t, m))
	require.EqualValues(t, time.Hour.Milliseconds(), o.Until-o.Since)
}

// A page that says "retries cannot help" would keep them off.
func TestThePageSaysOfAFailingServiceThatItsRetriesAreOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		var panel control.Panel
		panel.Policy(backoff.Policy{Name: "fetch"})
		panel.Policy(backoff.Policy{Name: "b"})
		m.panels = []*control.Panel{&panel}
		failures(t, m, 20)
		time.Sleep(time.Second)
		to := func(what, name, to string) string {
			set(t, &panel, control.Target{What: what, Name: name}, to)
			synctest.Wait()
			d := m.pageData()
			off := strings.Contains(d.Headline.Sentences[0].Text, retriesAreOff)
			require.Equal(t, off, strings.Contains(d.Operations[0].Text, retriesAreOff))
			return map[bool]string{true: "off", false: "on"}[off]
		}
		require.Equal(t, "on", to(control.Retries, "b", control.Off))
		require.Equal(t, "on", to(control.Spec, "fetch", `{"maxAttempts": 6}`))
		require.Equal(t, "off", to(control.Retries, "fetch", control.Off))
		require.Equal(t, "on", to(control.Retries, "fetch", ""))
		require.Equal(t, "off", to(control.Retries, control.All, control.Off))
		require.Equal(t, "on", to(control.Retries, "fetch", control.On))
		require.Equal(t, "off", to(control.Retries, "fetch", ""))
		require.Equal(t, "on", to(control.Retries, control.All, ""))
		require.Equal(t, "on", to(control.Retries, "b", ""))
		require.Equal(t, "on", to(control.Spec, "fetch", ""))
	})
}

func TestThePageBlamesNoServiceWhoseCircuitIsForcedOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		b := &backoff.Breaker{Name: "fetch", Observer: m.Observe}
		m.WatchBreaker("fetch", b)
		service := &guard.Service{Breaker: b}
		calls(t, m, 1)
		b.Force(backoff.ModeForcedOpen)
		for range 20 {
			require.Error(t, service.Do(t.Context(), backoff.Policy{Name: "fetch", Observer: m.Observe}, func(context.Context) error { return nil }))
		}
		time.Sleep(time.Second)
		require.Contains(t, m.pageData().Operations[0].Text, "because the circuit was open. Its circuit is forced open")
		require.NotContains(t, m.pageData().Operations[0].Text, "look at the service")
	})
}

func TestThePageSaysWhichProcessItIsOf(t *testing.T) {
	p := thisProcess()
	require.Equal(t, filepath.Base(os.Args[0]), p.Program)
	require.Positive(t, p.PID)
	require.NotEmpty(t, p.Host)
	require.NotEmpty(t, p.Go)
	require.Positive(t, p.Started)
}

// headlineText returns the whole headline.
func headlineText(t *testing.T, m *served) string {
	t.Helper()
	var all []string
	for _, s := range m.pageData().Headline.Sentences {
		all = append(all, s.Text)
	}
	return strings.Join(all, " ")
}

// Several panels may change things of one name, and names that are too long to
// be shown are one.
func TestOverridesOfOneNameAreOneSeries(t *testing.T) {
	var panels [2]control.Panel
	m := serve(&panels[0], &panels[1])
	requireOverrides(t, m)
	for i := range panels {
		panel := &panels[i]
		for _, policy := range []string{"search", strings.Repeat("x", snapshot.MaxName+1), strings.Repeat("y", snapshot.MaxName+1)} {
			panel.Policy(backoff.Policy{Name: policy})
			set(t, panel, control.Target{What: control.Retries, Name: policy}, control.Off)
		}
		hosts := new(guard.Services)
		panel.Services("hosts", hosts)
		hosts.For("k")
		set(t, panel, control.Target{What: control.Breakers, Name: "hosts", Key: "k"}, "observe")
	}
	requireOverrides(t, m,
		backoffmetrics.Sample{Labels: []string{"what", "breakers", "name", "hosts", "key", "k"}, Value: 2},
		backoffmetrics.Sample{Labels: []string{"what", "retries", "name", "other"}, Value: 4},
		backoffmetrics.Sample{Labels: []string{"what", "retries", "name", "search"}, Value: 2},
	)
}

// requireOverrides requires the series of overrides.
func requireOverrides(t *testing.T, m *served, want ...backoffmetrics.Sample) {
	t.Helper()
	for _, f := range m.Families() {
		if f.Name == "backoff_overrides" {
			require.Equal(t, want, f.Samples)
			return
		}
	}
	t.Error("there is no such family")
}

// A spec may have 64 kB.
func TestALongOverrideIsCut(t *testing.T) {
	m := serve()
	var panel control.Panel
	m.panels = []*control.Panel{&panel}
	panel.Policy(backoff.Policy{Name: "b"})
	long := `{"maxAttempts": 2` + strings.Repeat(" ", 60_000) + `}`
	set(t, &panel, control.Target{What: control.Spec, Name: "b"}, long)
	text := m.pageData().Controls.Overrides[0].Text
	require.Less(t, len(text), 2*snapshot.MaxName)
	require.True(t, strings.HasSuffix(text, "…"))
	require.True(t, utf8.ValidString(cut("x"+strings.Repeat("ä", snapshot.MaxName))))
}
