// Package library has the rules for users of github.com/gobackoff/backoff.
package library

import (
	"golang.org/x/tools/go/analysis"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// Analyzers are the rules of this package.
var Analyzers = []*analysis.Analyzer{
	nilCtxErr,
	barePosts,
	failFastJob,
	noCheck,
	outerCtx,
	outsideRun,
	perCall,
	retriesInside,
	wrapErr,
}

// code is what a rule looks at: a package that uses the library.
type code struct {
	*rule.Pass
	*model
}

// newRule returns a rule that looks at packages that use the library.
func newRule(name, doc string, look func(*code)) *analysis.Analyzer {
	return rule.New(name, doc, func(p *rule.Pass) {
		if m, _ := p.ResultOf[models].(*model); m != nil {
			look(&code{p, m})
		}
	}, models)
}
