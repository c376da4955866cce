package corpus_test

import (
	"errors"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/txtar"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/all"
)

// A snippet is a function of snippets/RULE.txtar. Its comment says what RULE should make of it:
//
//	want     a bug, and it is found
//	missed   a bug, but it is not found
//	right    no bug, and nothing is found
//	false    no bug, but it is found
//
// and in a line "also:" which other rules find something in it, and rightly so.
type snippet struct {
	name, rule, verdict string
	also                []string
	found               map[string]bool
}

const module = `module example.com/snippets

go 1.26

require github.com/cenkalti/backoff/v5 v5.0.0

replace github.com/cenkalti/backoff/v5 => ./cenkalti
`

func TestEverySnippetIsJudgedAsRecorded(t *testing.T) {
	snippets, err := judged()
	require.NoError(t, err)
	for _, s := range snippets {
		t.Run(s.rule+"/"+s.name, func(t *testing.T) {
			require.Equal(t, s.recorded(), strings.Join(slices.Sorted(maps.Keys(s.found)), " "), s.verdict)
		})
	}
	report(t, snippets)
}

func TestHalfOfTheSnippetsAreRight(t *testing.T) {
	snippets, err := judged()
	require.NoError(t, err)
	bugs, right := 0, 0
	for _, s := range snippets {
		if s.isBug() {
			bugs++
		} else {
			right++
		}
	}
	require.GreaterOrEqual(t, bugs+right, 100)
	require.GreaterOrEqual(t, right, bugs)
}

func (s snippet) isBug() bool { return s.verdict == "want" || s.verdict == "missed" }

// recorded returns the rules that find something in the snippet, by its comment.
func (s snippet) recorded() string {
	rules := slices.Clone(s.also)
	if s.verdict == "want" || s.verdict == "false" {
		rules = append(rules, s.rule)
	}
	slices.Sort(rules)
	return strings.Join(rules, " ")
}

func report(t *testing.T, snippets []snippet) {
	counts := map[string]map[string]int{}
	for _, s := range snippets {
		if counts[s.rule] == nil {
			counts[s.rule] = map[string]int{}
		}
		counts[s.rule][s.verdict]++
	}
	for _, rule := range slices.Sorted(maps.Keys(counts)) {
		c := counts[rule]
		t.Logf("%-12s %2d found, %d missed, %2d right, %d false", rule, c["want"], c["missed"], c["right"], c["false"])
	}
}

// judged returns all snippets and what the rules find in them.
var judged = sync.OnceValues(func() ([]snippet, error) {
	dir, err := os.MkdirTemp("", "snippets")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := unpack(dir); err != nil {
		return nil, err
	}
	pkgs, err := load(dir)
	if err != nil {
		return nil, err
	}
	graph, err := checker.Analyze(all.Rules(), pkgs, nil)
	if err != nil {
		return nil, err
	}
	return judgeAll(graph, pkgs), nil
})

func unpack(dir string) error {
	names, err := filepath.Glob("snippets/*.txtar")
	if err != nil {
		return err
	}
	failed := []error{write(filepath.Join(dir, "go.mod"), []byte(module))}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			return err
		}
		folder := strings.TrimSuffix(filepath.Base(name), ".txtar")
		for _, f := range archive.Files {
			failed = append(failed, write(filepath.Join(dir, strings.TrimPrefix(folder, "stubs"), f.Name), f.Data))
		}
	}
	return errors.Join(failed...)
}

func write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o600)
}

func load(dirs ...string) (pkgs []*packages.Package, err error) {
	for _, dir := range dirs {
		more, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: dir}, "./...")
		if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, more...)
	}
	for _, pkg := range pkgs {
		for _, e := range pkg.Errors {
			err = errors.Join(err, e)
		}
	}
	return pkgs, err
}

func judgeAll(graph *checker.Graph, pkgs []*packages.Package) (all []snippet) {
	for _, pkg := range pkgs {
		for _, file := range pkg.Syntax {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && verdictOf(f) != "" {
					all = append(all, judge(graph, pkg, f))
				}
			}
		}
	}
	return all
}

func judge(graph *checker.Graph, pkg *packages.Package, f *ast.FuncDecl) snippet {
	rule := strings.Split(pkg.PkgPath, "/")[2] // of example.com/snippets/rule
	s := snippet{name: f.Name.Name, rule: rule, verdict: verdictOf(f), also: alsoOf(f), found: map[string]bool{}}
	for _, action := range graph.Roots {
		for _, d := range action.Diagnostics {
			if action.Package == pkg && f.Pos() <= d.Pos && d.Pos < f.End() {
				s.found[action.Analyzer.Name] = true
			}
		}
	}
	return s
}

func verdictOf(f *ast.FuncDecl) string {
	for line := range strings.Lines(f.Doc.Text()) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		if slices.Contains([]string{"want", "missed", "right", "false"}, word) {
			return word
		}
	}
	return ""
}

func alsoOf(f *ast.FuncDecl) []string {
	for line := range strings.Lines(f.Doc.Text()) {
		if rules, ok := strings.CutPrefix(line, "also:"); ok {
			return strings.Fields(rules)
		}
	}
	return nil
}
