// Package all lists the analyzers of backoffvet.
package all

import (
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/general"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/library"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// optional are the rules that run only where somebody names them: they are right less often.
var optional = []string{"endless", "nocap", "nojitter", "ownctx", "resentpost", "timeafter"}

// Rules returns all rules.
func Rules() []*analysis.Analyzer {
	rules := slices.Concat(general.Analyzers, library.Analyzers)
	return append(rules, rule.Directives(rules))
}

// Chosen returns the rules that run by default and those of the others that are named.
func Chosen(names ...string) []*analysis.Analyzer {
	return slices.DeleteFunc(Rules(), func(a *analysis.Analyzer) bool {
		return slices.Contains(optional, a.Name) && !slices.Contains(names, a.Name)
	})
}

// ForArguments returns the rules to offer for the arguments of a command: those of Chosen for the
// flags that name a rule. Who asks what there is, as "go vet" does, is offered all.
func ForArguments(args []string) []*analysis.Analyzer {
	var names []string
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if arg == "help" || arg == "-flags" || name == "V" {
			return Rules()
		}
		if strings.HasPrefix(arg, "-") {
			names = append(names, name)
		}
	}
	return Chosen(names...)
}
