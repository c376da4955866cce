package rule

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/tools/go/analysis"
)

const prefix = "//backoffvet:ignore"

// A directive is one rule of a comment "//backoffvet:ignore rule,rule reason".
type directive struct {
	comment      *ast.Comment
	rule, reason string
	used         *atomic.Bool // it has silenced something
}

// ignored has the directives of a package by file and line.
type ignored map[line][]directive

type line struct {
	file   string
	number int
}

var directives = &analysis.Analyzer{
	Name:       "backoffvetdirectives",
	Doc:        "collect the comments //backoffvet:ignore",
	Run:        func(p *analysis.Pass) (any, error) { return collect(p), nil },
	ResultType: reflect.TypeFor[ignored](),

	RunDespiteErrors: true,
}

func collect(p *analysis.Pass) ignored {
	found := ignored{}
	for _, f := range p.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				at := lineOf(p, c.Pos())
				found[at] = append(found[at], parse(c)...)
			}
		}
	}
	return found
}

func parse(c *ast.Comment) (all []directive) {
	rest, ok := strings.CutPrefix(c.Text, prefix)
	if !ok || rest != "" && !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "\t") {
		return nil
	}
	names, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
	for name := range strings.SplitSeq(names, ",") {
		all = append(all, directive{c, name, strings.TrimSpace(reason), new(atomic.Bool)})
	}
	return all
}

func lineOf(p *analysis.Pass, pos token.Pos) line {
	at := p.Fset.PositionFor(pos, false)
	return line{at.Filename, at.Line}
}

// ignores reports whether a directive at a line silences a rule, or one of those in the lines
// above.
func (i ignored) ignores(p *analysis.Pass, at analysis.Range) bool {
	here := lineOf(p, at.Pos())
	lines := i[here]
	for above := here.number - 1; len(i[line{here.file, above}]) > 0; above-- {
		lines = slices.Concat(lines, i[line{here.file, above}])
	}
	silent := false
	for _, d := range lines {
		if d.rule == p.Analyzer.Name && d.reason != "" {
			d.used.Store(true)
			silent = true
		}
	}
	return silent
}

// Directives returns the rule about the directives themselves: each names some of the rules, gives
// a reason, and silences what they find.
func Directives(rules []*analysis.Analyzer) *analysis.Analyzer {
	const doc = "report //backoffvet:ignore of an unknown rule, without a reason, or where nothing is found"
	return New("ignore", doc, func(p *Pass) {
		for _, here := range p.ResultOf[directives].(ignored) {
			for _, d := range here {
				if wrong := d.wrong(rules); wrong != "" {
					p.Report(d.comment, wrong)
				}
			}
		}
	}, rules...)
}

func (d directive) wrong(rules []*analysis.Analyzer) string {
	known := slices.ContainsFunc(rules, func(a *analysis.Analyzer) bool { return a.Name == d.rule })
	switch {
	case d.rule == "":
		return "this directive names no rule: write //backoffvet:ignore rule reason"
	case !known:
		return fmt.Sprintf("backoffvet has no rule %q: this directive ignores nothing", d.rule)
	case d.reason == "":
		return fmt.Sprintf("this directive gives no reason and so ignores nothing: say why %s is wrong here", d.rule)
	case !d.used.Load():
		return fmt.Sprintf("%s finds nothing here: this directive ignores nothing, and can go", d.rule)
	}
	return ""
}
