package presets_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/presets"
)

// 22 operations always, 11 under conditions, 14 never.
// objects.insert has two addresses. That each rule is right, backoffhttp's
// conformance tests show.
func TestCloudStorageHasEveryOperation(t *testing.T) {
	count := map[string]int{}
	for pattern, rule := range presets.CloudStorageOperations() {
		require.True(t, strings.Contains(pattern, " /storage/v1/") || strings.Contains(pattern, " /upload/storage/v1/"), pattern)
		if rule != "always" && rule != "never" {
			rule = "conditionally"
		}
		count[rule]++
	}
	require.Equal(t, map[string]int{"always": 22, "conditionally": 11 + 1, "never": 14}, count)
}

func TestCloudStorageIsNewEveryTime(t *testing.T) {
	clear(presets.CloudStorageOperations())
	require.Len(t, presets.CloudStorageOperations(), 48)
}
