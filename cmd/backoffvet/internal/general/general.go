// Package general has the rules for any Go code.
package general

import "golang.org/x/tools/go/analysis"

// Analyzers are the rules of this package.
var Analyzers []*analysis.Analyzer
