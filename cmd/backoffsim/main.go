// Command backoffsim shows what a retry policy does to a service, before it
// does so in production. It runs the library's own policies, budgets and
// breakers in virtual time.
//
//	go install -C cmd/backoffsim .                                 in a checkout
//	go install github.com/gobackoff/backoff/cmd/backoffsim@latest  once there is a release
//
//	backoffsim policy -policy fetch.json -policy default -deadline 10s
//	backoffsim import -pick search.Search/Query serviceconfig.json >fetch.json
//	backoffsim dip -policy fetch.json -load 0.7 -svg dip.svg
//	backoffsim chain -policy fetch.json -p 0.1,0.5,1
//	backoffsim herd -policy fetch.json -clients 5000
//	backoffsim ratelimit -policy fetch.json -users 50 -limit 100 -retry-after 1s
//	backoffsim run -policy fetch.json -trace calls.csv -p50 8ms -p99 90ms -capacity 1200
//
// A policy is a file of package spec, in JSON or YAML, or the name of a
// preset; policy -list prints the names. The command policy prints the waits
// of policies, and import converts a gRPC service config, or a VirtualService
// or DestinationRule of Istio. The other commands simulate: dip a server that
// is slow for a while, chain retries in several layers, herd clients that retry
// together, ratelimit a job at an API that accepts so many requests a second,
// and run your own service and traffic. Each command has help by -h. The same
// seed gives the same numbers and pictures on every machine.
//
// Tables go to the standard output, and everything else to the standard error.
// A simulation prints JSON with -json, and draws a chart with -svg.
//
// For builds there are gates, which the given policies must pass:
//
//	backoffsim dip -policy fetch.json -must-recover 60s -max-amplification 1.5 -min-success 0.8
//
// Exit status 0 means that all gates passed, 1 that one failed, and 2 that
// nothing was run because of an unknown flag or an invalid file.
//
// docs/results/simulation.md in the repository explains the models and what they leave
// out. It has the command for every number in it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The exit statuses.
const (
	exitOK    = 0
	exitGate  = 1
	exitUsage = 2
)

// A terminal is where a command reads and writes.
type terminal struct {
	in       io.Reader
	out, err io.Writer
}

// A command is one of the program's commands. The first argument names it.
type command struct {
	name, operand, about string
	run                  func(t *terminal, c *command, args []string) error
}

// commands are in the order of the help text.
var commands []*command

func init() {
	commands = []*command{
		{"policy", "", "print the waits of policies", runPolicy},
		{"import", " FILE", "turn a gRPC service config, or a rule of Istio, into a policy file", runImport},
		{"dip", "", "simulate a server that is slow for a while, and whether it recovers", runDip},
		{"chain", "", "simulate retries in several layers of services", runChain},
		{"herd", "", "simulate clients that failed together and come back together", runHerd},
		{"ratelimit", "", "simulate a job at an API with a rate limit", runRateLimit},
		{"run", "", "simulate your own service and traffic", runRun},
	}
}

func main() {
	t := &terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	os.Exit(t.main(os.Args[1:]))
}

// errGate says that a gate failed. The failure has been printed already.
var errGate = errors.New("a gate did not hold")

// main runs the command that args name, and returns the exit status.
func (t *terminal) main(args []string) int {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		t.help()
		if len(args) == 0 {
			return exitUsage
		}
		return exitOK
	}
	for _, c := range commands {
		if c.name == args[0] {
			return t.status(c, c.run(t, c, args[1:]))
		}
	}
	fmt.Fprintf(t.err, "backoffsim: there is no command %q; see backoffsim -h\n", args[0])
	return exitUsage
}

// status prints an error and returns the exit status for it.
func (t *terminal) status(c *command, err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errGate):
		return exitGate
	}
	fmt.Fprintf(t.err, "backoffsim %s: %s\n", c.name, oneLine(err.Error()))
	return exitUsage
}

// help prints the help text of the program.
func (t *terminal) help() {
	fmt.Fprint(t.out, "backoffsim shows what a retry policy does to a service.\n\nCommands, each with -h:\n\n")
	var rows table
	for _, c := range commands {
		rows.add("  "+c.name, c.about)
	}
	rows.left = 2
	rows.print(t.out)
	fmt.Fprint(t.out, "\nExit status: 0 all gates held, 1 a gate did not hold, 2 wrong usage or a bad file.\n")
}

// flags returns an empty set of flags for a command.
func (c *command) flags() *flag.FlagSet {
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	return set
}

// parse parses args, which are flags, and the operand of the command if it has one.
func (t *terminal) parse(c *command, set *flag.FlagSet, about string, args []string) error {
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		t.usage(c, set, about)
		return err
	}
	if err != nil {
		return fmt.Errorf("%w; see backoffsim %s -h", err, c.name)
	}
	if c.operand == "" && set.NArg() > 0 {
		return fmt.Errorf("%q is not a flag; see backoffsim %s -h", set.Arg(0), c.name)
	}
	return nil
}

// usage prints the help text of a command.
func (t *terminal) usage(c *command, set *flag.FlagSet, about string) {
	fmt.Fprintf(t.out, "usage: backoffsim %s [flags]%s\n\n%s\n\nFlags:\n", c.name, c.operand, about)
	set.SetOutput(t.out)
	set.PrintDefaults()
}

// oneLine replaces each run of white space by one space. What a terminal would
// take for a command is escaped: a file may be a stranger's.
func oneLine(text string) string {
	var line strings.Builder
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if unicode.IsPrint(r) {
			line.WriteRune(r)
		} else {
			line.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return line.String()
}
