// Package library has the rules for users of github.com/gobackoff/backoff.
package library

import "golang.org/x/tools/go/analysis"

// Analyzers are the rules of this package.
var Analyzers []*analysis.Analyzer
