// Command mutants finds out whether the tests of a package can fail: it changes
// the package in one place, runs the tests, and expects them to notice.
//
//	go run -C internal/lab ./mutants                       # the root package
//	go run -C internal/lab ./mutants -sample 200 ../../limit
//	go run -C internal/lab ./mutants -list -run run.go:12
//
// The changes are:
//
//   - an operator becomes another one: < becomes <= and >=, + becomes -, &&
//     becomes ||, += becomes -=, ++ becomes --; a unary operator is left out
//   - an integer literal grows or shrinks by one, a constant of the package
//     grows by one, true becomes false
//   - a condition becomes its opposite, or one of its clauses
//   - an error that is returned or assigned becomes nil
//   - a statement is left out (an assignment, a call, a send, defer, go, break
//     and the like), or a field of a composite literal
//
// A mutant is a copy of one function with one such change. All copies are in
// one rewritten package, and so are compiled once. Each function begins with a
// switch on the number in the environment variable MUTANT, and calls the copy
// with that number. The go command takes the rewritten files from a temporary
// directory, by its flag -overlay; nothing is written to the package. Copies
// that do not type-check are left out.
//
// The test binary then runs once per mutant, in the directory of the package.
// A mutant is killed if the tests fail. It times out if they take several times
// as long as without a change, and survives if they pass. Slow tests run only
// after the quick ones have passed.
//
// Not mutated are constants, variables of the package and their initial values,
// strings, floating-point literals, and functions that call recover themselves,
// because recover does not work in a function that a deferred one calls. The
// compiler inlines fewer of the rewritten functions, so tests that count
// allocations may fail without a change: leave them out with -skip.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	dir      string
	list     bool
	match    string
	skip     string
	sample   int
	seed     uint64
	parallel int
	factor   float64
	min      float64
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("mutants", flag.ContinueOnError)
	f.BoolVar(&o.list, "list", false, "list the mutants, and run none")
	f.StringVar(&o.match, "run", "", "only mutants whose file:line matches this `regexp`")
	f.StringVar(&o.skip, "skip", "", "leave out the tests whose name matches this `regexp`")
	f.IntVar(&o.sample, "sample", 0, "only `n` mutants, drawn at random; 0 means all")
	f.Uint64Var(&o.seed, "seed", 1, "the seed of the sample")
	f.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "run the tests of `n` mutants at the same time")
	f.Float64Var(&o.factor, "factor", 5, "a run may take this many times as long as one without a change, and 2 s more")
	f.Float64Var(&o.min, "min", 0, "fail if the tests notice less than this `percentage` of the mutants")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 1 {
		return o, errors.New("want one directory of a package")
	}
	o.dir = cmp.Or(f.Arg(0), "../..")
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	p, err := load(o.dir)
	if err != nil {
		return err
	}
	mutants, err := p.mutants()
	if err != nil {
		return err
	}
	if mutants, err = o.choose(mutants); err != nil {
		return err
	}
	if o.list {
		for _, m := range mutants {
			fmt.Fprintln(out, m)
		}
		return nil
	}
	if err := p.test(ctx, o, mutants, out); err != nil {
		return err
	}
	report(out, mutants)
	if got := count(mutants).noticed(); got < o.min {
		return fmt.Errorf("the tests notice %.1f %% of the mutants, want %g %%", got, o.min)
	}
	return ctx.Err()
}

// choose returns the mutants that are asked for.
func (o *options) choose(all []*mutant) ([]*mutant, error) {
	match, err := regexp.Compile(o.match)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m *mutant) bool { return !match.MatchString(m.place()) })
	if o.sample > 0 && o.sample < len(all) {
		rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.sample]
		slices.SortFunc(all, func(a, b *mutant) int { return a.number - b.number })
	}
	return all, nil
}
