package all

import (
	"fmt"
	"os"
	"slices"
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

func TestOptionalRulesRunOnlyWhereTheyAreNamed(t *testing.T) {
	require.NotContains(t, names(Chosen()), "nojitter")
	require.NotContains(t, names(ForArguments([]string{"./...", "nojitter"})), "nojitter")
	require.Contains(t, names(ForArguments([]string{"-nojitter=true", "./..."})), "nojitter")
	require.Contains(t, names(ForArguments([]string{"--nojitter", "./..."})), "nojitter")
}

func TestWhoAsksWhatThereIsIsOfferedAll(t *testing.T) {
	for _, asks := range []string{"help", "-flags", "-V=full"} {
		require.Contains(t, names(ForArguments([]string{asks})), "nojitter")
	}
}

func TestOptionalRulesExist(t *testing.T) {
	require.Subset(t, names(Rules()), optional)
}

func TestTheReadmeListsEachRuleAndItsPageExists(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, name := range names(Rules()) {
		mark := ""
		if slices.Contains(optional, name) {
			mark = ", optional"
		}
		require.Contains(t, string(text), fmt.Sprintf("\n| [%s](docs/%[1]s.md)%s | ", name, mark))
		require.FileExists(t, "../../docs/"+name+".md")
	}
}
