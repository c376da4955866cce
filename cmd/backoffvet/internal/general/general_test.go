package general

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// Each package of testdata has what its rule finds, and what looks like it and is right. They are
// loaded at once, since analysistest takes ten times as long.
func TestEachRuleFindsItsBugsAndNoLookAlike(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: "testdata"}, "./...")
	require.NoError(t, err)
	for _, pkg := range pkgs {
		require.Empty(t, pkg.Errors)
	}
	graph, err := checker.Analyze(Analyzers, pkgs, nil)
	require.NoError(t, err)

	tried := 0
	for _, act := range graph.Roots {
		if act.Analyzer.Name == path.Base(act.Package.PkgPath) {
			tried++
			require.NoError(t, act.Err)
			require.Equal(t, wanted(act.Package), found(act), act.Analyzer.Name)
		}
	}
	require.Len(t, Analyzers, tried)
}

var want = regexp.MustCompile("// want [\"`](.*)[\"`]")

// wanted returns the lines of a package whose comment wants a finding, with the text it wants.
func wanted(pkg *packages.Package) []string {
	var all []string
	for _, f := range pkg.Syntax {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if m := want.FindStringSubmatch(c.Text); m != nil {
					all = append(all, fmt.Sprint(pkg.Fset.Position(c.Pos()).Line, ": ", m[1]))
				}
			}
		}
	}
	return all
}

// found returns the findings in the same form. Of a message it keeps what the line wants of it.
func found(act *checker.Action) []string {
	slices.SortFunc(act.Diagnostics, func(a, b analysis.Diagnostic) int { return int(a.Pos - b.Pos) })
	var all []string
	for _, d := range act.Diagnostics {
		at := act.Package.Fset.Position(d.Pos)
		text := d.Message
		for _, w := range wanted(act.Package) {
			if message, ok := strings.CutPrefix(w, fmt.Sprint(at.Line, ": ")); ok && strings.Contains(text, message) {
				text = message
			}
		}
		all = append(all, fmt.Sprint(at.Line, ": ", text))
	}
	return all
}

func TestDeafSleepIsMendedWhereTheFunctionReturnsAnError(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), deafSleep, "./fix")
}
