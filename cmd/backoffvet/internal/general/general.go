// Package general has the rules for any Go code.
package general

import (
	"golang.org/x/tools/go/analysis"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// Analyzers are the rules of this package.
var Analyzers = []*analysis.Analyzer{
	deafSleep,
	lastSleep,
	twiceDrawn,
}

// ruleOfLoops returns a rule that looks at each loop.
func ruleOfLoops(name, doc string, look func(*rule.Pass, *loop.Loop)) *analysis.Analyzer {
	return rule.New(name, doc, func(p *rule.Pass) {
		for _, l := range loop.Of(p.Pass) {
			look(p, l)
		}
	}, loop.Analyzer)
}
