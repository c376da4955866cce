package remote_test

import (
	"go/ast"
	"go/types"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
)

// The function of testdata around a call says what it is.
func TestRemoteCallsAreToldByTheirTypes(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: "testdata"}, ".")
	require.NoError(t, err)
	tried := 0
	for _, decl := range pkgs[0].Syntax[0].Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		for _, stmt := range f.Body.List {
			call := stmt.(*ast.ExprStmt).X.(*ast.CallExpr)
			require.Equal(t, f.Name.Name == "remote", remote.Call(pkgs[0].TypesInfo, call), types.ExprString(call))
			tried++
		}
	}
	require.Equal(t, 13, tried)
}
