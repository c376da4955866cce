// Backoffvet finds bugs in code that retries.
//
// Run it by itself, or by go vet:
//
//	backoffvet ./...
//	backoffvet -fix ./...
//	go vet -vettool=$(which backoffvet) ./...
//	backoffvet -migrate cenkalti ./...
//
// It leaves test files alone, unless -tests is given. With the flag of a rule it runs this rule
// only. "backoffvet help" lists the rules.
//
// With -migrate it checks nothing, and moves code from another retry library to this one.
package main

import (
	"flag"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/all"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/migrate"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

func main() {
	if slices.ContainsFunc(os.Args[1:], isMigrate) {
		os.Exit(migrate.Run(os.Args[1:], os.Stdout, os.Stderr))
	}
	flag.BoolVar(&rule.Tests, "tests", false, "look at test files, too")
	rules := all.ForArguments(os.Args[1:])
	os.Args = withoutTests(os.Args)
	multichecker.Main(rules...)
}

// isMigrate reports whether an argument is the flag -migrate.
func isMigrate(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
	return name == "-migrate" || name == "migrate" && strings.HasPrefix(arg, "-")
}

// withoutTests tells multichecker not to load test files, which would take it twice as long, where
// no rule looks at them.
func withoutTests(args []string) []string {
	if len(args) == 1 || slices.Contains(args, "-tests") || slices.Contains(args, "--tests") {
		return args
	}
	return slices.Insert(args, 1, "-test=false")
}
