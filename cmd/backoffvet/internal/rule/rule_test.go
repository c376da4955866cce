package rule_test

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// calls reports each call of a function named bad.
var calls = rule.New("calls", "report calls of bad", func(p *rule.Pass) {
	for _, f := range p.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isBad(call) {
				p.Report(call, "bad is called")
			}
			return true
		})
	}
})

func isBad(call *ast.CallExpr) bool {
	name, ok := call.Fun.(*ast.Ident)
	return ok && name.Name == "bad"
}

func TestFindingsLeaveOutTestsGeneratedFilesAndIgnoredLines(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), calls, "a", "v/vendor/b")
}

func TestTheFlagTestsIncludesTestFiles(t *testing.T) {
	rule.Tests = true
	t.Cleanup(func() { rule.Tests = false })
	analysistest.Run(t, analysistest.TestData(), calls, "tested")
}

func TestADirectiveNamesARuleAndAReason(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), rule.Directives([]*analysis.Analyzer{calls}), "directive")
}

func TestARuleNamesItsPage(t *testing.T) {
	require.Equal(t, "https://github.com/gobackoff/backoff/blob/main/cmd/backoffvet/docs/calls.md", calls.URL)
}
