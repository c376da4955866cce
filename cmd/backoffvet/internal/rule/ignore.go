package rule

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const prefix = "//backoffvet:ignore"

// A directive is a comment "//backoffvet:ignore rule reason".
type directive struct {
	comment      *ast.Comment
	rule, reason string
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
				if d, ok := parse(c); ok {
					at := lineOf(p, c.Pos())
					found[at] = append(found[at], d)
				}
			}
		}
	}
	return found
}

func parse(c *ast.Comment) (directive, bool) {
	rest, ok := strings.CutPrefix(c.Text, prefix)
	if !ok || rest != "" && !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "\t") {
		return directive{}, false
	}
	name, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return directive{comment: c, rule: name, reason: strings.TrimSpace(reason)}, true
}

func lineOf(p *analysis.Pass, pos token.Pos) line {
	at := p.Fset.PositionFor(pos, false)
	return line{at.Filename, at.Line}
}

func (i ignored) ignores(p *analysis.Pass, at analysis.Range) bool {
	here := lineOf(p, at.Pos())
	above := line{here.file, here.number - 1}
	return slices.ContainsFunc(slices.Concat(i[here], i[above]), func(d directive) bool {
		return d.rule == p.Analyzer.Name && d.reason != ""
	})
}

// Directives returns the rule about the directives themselves: each names one of the rules and
// gives a reason.
func Directives(rules []*analysis.Analyzer) *analysis.Analyzer {
	const doc = "report //backoffvet:ignore of an unknown rule or without a reason"
	return New("ignore", doc, func(p *Pass) {
		for _, here := range p.ResultOf[directives].(ignored) {
			for _, d := range here {
				if wrong := d.wrong(rules); wrong != "" {
					p.Report(d.comment, wrong)
				}
			}
		}
	})
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
	}
	return ""
}
