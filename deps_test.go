package backoff_test

import (
	"os/exec"
	"slices"
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

// A rate limiter is for those who limit a rate, and for those who read one from a file.
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
