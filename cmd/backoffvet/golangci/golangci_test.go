package golangci

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/all"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

func TestThePluginIsRegisteredWithAllRules(t *testing.T) {
	plugin, err := register.GetPlugin("backoffvet")
	require.NoError(t, err)

	l, err := plugin(nil)
	require.NoError(t, err)
	require.Equal(t, register.LoadModeTypesInfo, l.GetLoadMode())

	rules, err := l.BuildAnalyzers()
	require.NoError(t, err)
	require.Len(t, rules, len(all.Rules()))
}

func TestASettingChoosesTests(t *testing.T) {
	t.Cleanup(func() { rule.Tests = false })
	l, err := plug(map[string]any{"tests": true})
	require.NoError(t, err)

	_, err = l.BuildAnalyzers()
	require.NoError(t, err)
	require.True(t, rule.Tests)
}

func TestUnknownSettingsAreRefused(t *testing.T) {
	_, err := plug(map[string]any{"test": true})
	require.ErrorContains(t, err, "test")
}
