package loop_test

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
)

// The functions of testdata begin with the kind of their loop.
func TestLoopsAreToldApart(t *testing.T) {
	kinds := map[loop.Kind]string{loop.Retry: "retry", loop.Poll: "poll", loop.Worker: "worker", loop.Other: "other"}
	loops := loops(t)
	require.NotEmpty(t, loops)
	for _, l := range loops {
		name := l.Func.Node.(*ast.FuncDecl).Name.Name
		require.True(t, strings.HasPrefix(name, kinds[l.Kind]), "%s is of kind %s", name, kinds[l.Kind])
	}
}

func loops(t *testing.T) []*loop.Loop {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: "testdata"}, ".")
	require.NoError(t, err)
	graph, err := checker.Analyze([]*analysis.Analyzer{loop.Analyzer}, pkgs, nil)
	require.NoError(t, err)
	require.NoError(t, graph.Roots[0].Err)
	return graph.Roots[0].Result.([]*loop.Loop)
}
