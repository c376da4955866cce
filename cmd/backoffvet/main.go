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
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/all"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/migrate"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

func main() {
	if slices.ContainsFunc(os.Args[1:], isMigrate) {
		os.Exit(migrate.Run(os.Args[1:], os.Stderr))
	}
	flag.BoolVar(&rule.Tests, "tests", false, "look at test files, too")
	if !strings.HasSuffix(os.Args[len(os.Args)-1], ".cfg") { // else go vet runs it
		os.Args = withoutFix(withoutTags(withoutTests(os.Args)))
	}
	multichecker.Main(all.Rules()...)
}

// withoutTags hands -tags to the go command, which multichecker does not.
func withoutTags(args []string) []string {
	i := slices.IndexFunc(args, func(a string) bool { return is(a, "tags") })
	if i < 0 {
		return args
	}
	_, tags, ok := strings.Cut(args[i], "=")
	n := 1
	if !ok && i+1 < len(args) {
		tags, n = args[i+1], 2
	}
	_ = os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -tags="+tags))
	return slices.Delete(args, i, i+n)
}

// withoutFix mends what can be mended in a process of its own, since multichecker then says
// nothing of the rest. The arguments that it returns look for this rest.
func withoutFix(args []string) []string {
	i := slices.IndexFunc(args, func(a string) bool { return is(a, "fix") })
	if i < 0 || slices.ContainsFunc(args, func(a string) bool { return is(a, "diff") }) || os.Getenv(fixing) != "" {
		return args
	}
	fix := exec.Command(args[0], args[1:]...)
	fix.Env = append(os.Environ(), fixing+"=yes")
	fix.Stdout, fix.Stderr = os.Stdout, os.Stderr
	if err := fix.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "backoffvet: -fix:", err)
	}
	return slices.Delete(args, i, i+1)
}

// fixing is in the environment of the process that mends.
const fixing = "BACKOFFVET_FIXES"

// is reports whether an argument is a flag of this name.
func is(arg, name string) bool {
	flag, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	return strings.HasPrefix(arg, "-") && flag == name
}

// isMigrate reports whether an argument is the flag -migrate.
func isMigrate(arg string) bool { return is(arg, "migrate") }

// withoutTests tells multichecker not to load test files, which would take it twice as long, where
// no rule looks at them.
func withoutTests(args []string) []string {
	if len(args) == 1 || slices.Contains(args, "-tests") || slices.Contains(args, "--tests") {
		return args
	}
	return slices.Insert(args, 1, "-test=false")
}
