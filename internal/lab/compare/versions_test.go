package compare

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// peers are the modules of the tables, with the column that they have there, when the version was
// released, and the licence.
var peers = []struct{ column, path, released, licence string }{
	{"cenkalti", "github.com/cenkalti/backoff/v7", "2026-11-01", "MIT"},
	{"avast", "github.com/avast/retry-go/v5", "2026-11-04", "MIT"},
	{"sethvargo", "github.com/sethvargo/go-retry", "2026-10-05", "Apache-2.0"},
	{"failsafe-go", "github.com/failsafe-go/failsafe-go", "2026-09-30", "MIT"},
	{"gobreaker", "github.com/sony/gobreaker/v2", "2026-01-01", "MIT"},
	{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", "2025-06-18", "MPL-2.0"},
	{"resty", "resty.dev/v3", "2026-09-06", "MIT"},
}

// The versions in the document are those that the tests run against.
func TestVersions(t *testing.T) {
	lines := []string{"| Column | Module | Version | Released | Needs Go | Licence |", "|---|---|---|---|---|---|"}
	for _, p := range peers {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} | {{or .GoVersion \"–\"}}", p.path).Output()
		require.NoError(t, err, p.path)
		version, needs, _ := strings.Cut(strings.TrimSpace(string(out)), " | ")
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", p.column, p.path, version, p.released, needs, p.licence))
	}
	compareTable(t, "versions", lines)
}
