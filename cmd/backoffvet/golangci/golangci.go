// Package golangci makes the rules of backoffvet a linter of golangci-lint, by its module plugin
// system. Its settings are empty, or
//
//	tests: true              # look at test files, too
package golangci

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/all"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

func init() { register.Plugin("backoffvet", plug) }

type linter struct{ Tests bool }

func plug(settings any) (register.LinterPlugin, error) {
	return register.DecodeSettings[linter](settings)
}

// BuildAnalyzers returns the rules that the settings choose.
func (l linter) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	rule.Tests = l.Tests
	return all.Rules(), nil
}

// GetLoadMode says that the rules need types.
func (linter) GetLoadMode() string { return register.LoadModeTypesInfo }
