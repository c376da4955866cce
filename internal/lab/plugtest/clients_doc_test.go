//go:build nightly

package plugtest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
)

var (
	checkedRow = regexp.MustCompile(`(?m)^\| ✓ (.*?) \|.*\| (.*) \|$`)
	inCode     = regexp.MustCompile("`([^`]+)`")
	fenced     = regexp.MustCompile("(?ms)^```go (\\S+)\n(.*?)^```$")
)

// notOptions are in the last column of docs/clients.md for another reason.
var notOptions = map[string]bool{
	"SetRetryCount": true, "RetryMaxAttempts": true, "retryPolicy": true, "driver.ErrBadConn": true, "WithTransaction": true,
	"StartTransaction": true, "Config.Recovery": true, "backoff.Supervisor": true, "Retry-After": true, "apierrors.IsTooManyRequests": true,
	"NonIdempotent": true,
}

// What the table says of a client that it calls tested is code of a test.
func TestTheTableOfClientsSwitchesOffWhatTheTestsSwitchOff(t *testing.T) {
	document := docpagetest.Read(t, "../../../docs/clients.md")
	var code strings.Builder
	for _, pattern := range []string{"*_test.go", "../../../examples/clients/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if filepath.Base(file) != "clients_doc_test.go" {
				code.WriteString(docpagetest.Read(t, file))
			}
		}
	}
	rows := checkedRow.FindAllStringSubmatch(document, -1)
	require.Greater(t, len(rows), 15)
	for _, row := range rows {
		for _, option := range inCode.FindAllStringSubmatch(row[2], -1) {
			if !notOptions[option[1]] {
				require.True(t, strings.Contains(code.String(), option[1]), "%s: no test has %s", row[1], option[1])
			}
		}
	}
	for _, block := range fenced.FindAllStringSubmatch(document, -1) {
		require.True(t, strings.Contains(docpagetest.Read(t, "../../../"+block[1]), block[2]), "not in %s:\n%s", block[1], block[2])
	}
}
