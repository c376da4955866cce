package all

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
)

func names(rules []*analysis.Analyzer) []string {
	all := make([]string, len(rules))
	for i, a := range rules {
		all[i] = a.Name
	}
	return all
}

func TestRulesAreValid(t *testing.T) {
	require.NoError(t, analysis.Validate(Rules()))
}

func TestTheReadmeListsEachRuleAndItsPageExists(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, name := range names(Rules()) {
		require.Contains(t, string(text), fmt.Sprintf("\n| [%s](docs/%[1]s.md) | ", name))
		require.FileExists(t, "../../docs/"+name+".md")
	}
}
