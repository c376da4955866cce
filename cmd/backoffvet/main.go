// Backoffvet finds bugs in code that retries.
//
// Run it by itself, or by go vet:
//
//	backoffvet ./...
//	backoffvet -fix ./...
//	go vet -vettool=$(which backoffvet) ./...
//
// It leaves test files alone, unless -tests is given. With the flag of a rule it runs this rule
// only. "backoffvet help" lists the rules.
package main

import (
	"flag"
	"os"
	"slices"

	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/all"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

func main() {
	flag.BoolVar(&rule.Tests, "tests", false, "look at test files, too")
	rules := all.ForArguments(os.Args[1:])
	os.Args = withoutTests(os.Args)
	multichecker.Main(rules...)
}

// withoutTests tells multichecker not to load test files, which would take it twice as long, where
// no rule looks at them.
func withoutTests(args []string) []string {
	if len(args) == 1 || slices.Contains(args, "-tests") || slices.Contains(args, "--tests") {
		return args
	}
	return slices.Insert(args, 1, "-test=false")
}
