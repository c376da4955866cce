package general

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// around has what the first example of each page needs around it.
var around = map[string]string{
	"deafsleep": "func page(ctx context.Context, fetch func(context.Context) error) (err error) {\n%s\nreturn err\n}",
	"lastsleep": "func page(dial func() error) (err error) {\n%s\n}",
	"twicedrawn": "type schedule interface{ NextBackOff() time.Duration }\n\n" +
		"func page(b schedule, call func() error) {\nfor call() != nil {\n%s\n}\n}",
}

const prelude = `package page

import (
	"context"
	"errors"
	"log"
	"time"
)

var _ = errors.New
var _ = log.Print

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

`

func TestTheExamplesOfThePagesAreFound(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module pages\n\ngo 1.25\n"), 0o600))
	for _, a := range Analyzers {
		text, err := os.ReadFile("../../docs/" + a.Name + ".md")
		require.NoError(t, err)
		_, block, _ := strings.Cut(string(text), "```go\n")
		block, _, _ = strings.Cut(block, "```")
		require.NoError(t, os.Mkdir(filepath.Join(dir, a.Name), 0o755))
		source := prelude + fmt.Sprintf(around[a.Name], block)
		require.NoError(t, os.WriteFile(filepath.Join(dir, a.Name, "a.go"), []byte(source), 0o600))
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: dir}, "./...")
	require.NoError(t, err)
	graph, err := checker.Analyze(Analyzers, pkgs, nil)
	require.NoError(t, err)
	for _, action := range graph.Roots {
		if action.Package.PkgPath == "pages/"+action.Analyzer.Name {
			require.Empty(t, action.Package.Errors, action.Analyzer.Name)
			require.NotEmpty(t, action.Diagnostics, action.Analyzer.Name)
		}
	}
}
