package backoff_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that retries anything imports this package, and carries whatever it
// carries. One constant of net/http takes a program from 1.6 to 3.4 MB; log/slog
// costs 0.4 MB, expvar brings net/http and a handler on the default mux; testing
// registers flags. What needs one of them lives in a package of its own: backoffhttp,
// backoffslog, backoffmetrics, backofftest.
func TestThePackageIsLight(t *testing.T) {
	heavy := map[string]string{
		"net/http":      "use backoffhttp",
		"net":           "errors are known by their shape, see classify.go",
		"net/url":       "errors are known by their shape, see classify.go",
		"crypto/tls":    "errors are known by their shape, see classify.go",
		"crypto/x509":   "errors are known by their shape, see classify.go",
		"log/slog":      "use backoffslog",
		"log":           "a library does not log",
		"expvar":        "use backoffmetrics",
		"testing":       "use backofftest",
		"encoding/json": "use spec: it would add 12 KiB to those who read no file",
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}! {{end}}{{.ImportPath}}", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	deps := strings.Fields(strings.ReplaceAll(string(out), "! ", "!"))
	require.Contains(t, deps, "!github.com/gobackoff/backoff", "the list is not ours")
	for _, dep := range deps {
		why, bad := heavy[dep]
		require.False(t, bad, "the package now depends on %s: %s", dep, why)
		if path, ok := strings.CutPrefix(dep, "!"); ok {
			ours := path == "github.com/gobackoff/backoff" || strings.HasPrefix(path, "github.com/gobackoff/backoff/internal/")
			require.True(t, ours, "the package now depends on %s, want the standard library and internal/ only", path)
		}
	}
}

// A program chooses the version of this module and that of a module in contrib
// apart from each other. What is internal here may change in any version, and so
// a module in contrib, with its tests, uses only what is exported: otherwise
// upgrading one of the two could break the other.
func TestModulesThatUsersImportDoNotImportInternalPackagesOfTheRoot(t *testing.T) {
	modules, err := filepath.Glob("contrib/*/go.mod")
	require.NoError(t, err)
	if len(modules) == 0 {
		t.Skip("this copy of the module comes without contrib")
	}
	for _, module := range modules {
		require.NoError(t, filepath.WalkDir(filepath.Dir(module), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") {
				requireNoInternalImport(t, path)
			}
			return err
		}))
	}
}

func requireNoInternalImport(t *testing.T, file string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		require.False(t, strings.HasPrefix(path, "github.com/gobackoff/backoff/internal/"), "%s imports %s", file, path)
	}
}

// Programs that limit no rate do not carry a rate limiter.
func TestTheRateLimiterIsImportedByLimitAndSpecOnly(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var importers []string
	for line := range strings.Lines(string(out)) {
		imports := strings.Fields(line)
		if slices.ContainsFunc(imports, func(path string) bool { return strings.HasPrefix(path, "golang.org/x/time") }) {
			importers = append(importers, imports[0])
		}
	}
	require.Equal(t, []string{"github.com/gobackoff/backoff/limit", "github.com/gobackoff/backoff/spec"}, importers)
}
