// Package all lists the analyzers of backoffvet.
package all

import (
	"slices"

	"golang.org/x/tools/go/analysis"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/general"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/library"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// Rules returns all rules.
func Rules() []*analysis.Analyzer {
	rules := slices.Concat(general.Analyzers, library.Analyzers)
	return append(rules, rule.Directives(rules))
}
