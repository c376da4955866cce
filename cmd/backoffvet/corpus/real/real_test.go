package real

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func verdicts(t *testing.T) []verdict {
	all, err := readVerdicts("verdicts.tsv")
	require.NoError(t, err)
	return all
}

func TestTheReadmeSaysWhatTheVerdictsSay(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), precision(verdicts(t)))
}

func TestRulesAreRightInThreeOfFourFindings(t *testing.T) {
	found, right := map[string]int{}, map[string]int{}
	for _, v := range verdicts(t) {
		found[v.rule]++
		if v.is == "true" {
			right[v.rule]++
		}
	}
	for rule, n := range found {
		if n >= 10 {
			require.GreaterOrEqual(t, float64(right[rule])/float64(n), 0.75, rule)
		}
	}
}

// These bugs are why there is backoffvet: moving the programs to this library found them.
func TestTheBugsThatWereKnownBeforeAreFound(t *testing.T) {
	for _, known := range []place{
		{"github.com/ThreeDotsLabs/watermill@v1.5.1", "message/router/middleware/retry.go:120", "twicedrawn"},
		{"github.com/authzed/spicedb@v1.56.1", "internal/datastore/crdb/pool/pool.go:358", "lastsleep"},
		{"github.com/rclone/rclone@v1.75.0", "fs/operations/operations.go:762", "deafsleep"},
	} {
		require.True(t, slices.ContainsFunc(verdicts(t), func(v verdict) bool { return v.place == known && v.is == "true" }), known)
	}
}

func TestEveryVerdictSaysWhyAndIsOfAProgramThatIsFetched(t *testing.T) {
	modules, err := readModules("modules.tsv", regexp.MustCompile(""))
	require.NoError(t, err)
	seen := map[place]bool{}
	for _, v := range verdicts(t) {
		require.True(t, slices.ContainsFunc(modules, func(m module) bool { return m.String() == v.module }), v)
		require.Contains(t, []string{"true", "arguable", "false"}, v.is, v)
		require.NotEmpty(t, strings.TrimSpace(v.reason), v)
		require.False(t, seen[v.place], v)
		seen[v.place] = true
	}
}
