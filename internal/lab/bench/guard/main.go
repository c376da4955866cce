// Command guard fails if a success, or three failures, have become much slower
// since the last release. It compares processor time per call with that of
// minimal code measured in the same run, so it does not matter how fast the
// machine is, or what else it does. It runs in the directory of the benchmarks.
//
// It takes the least of a few short rounds, and more rounds if a figure is too
// high. The file last.txt keeps the ratios of the last release:
//
//	go run ./guard          # compare with last.txt
//	go run ./guard -write   # write last.txt
//
// With -show it runs any benchmarks nine times, each time in a new process, and
// prints the least, the median and the worst figure of each:
//
//	go run ./guard -show 'BreakerClosedParallel/^(minimal|backoff)$'
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	slack  = 1.5 // how many times the kept ratio is too slow
	few    = 3   // rounds
	many   = 9   // rounds, and runs of -show
	last   = "guard/last.txt"
	period = 15 * time.Second // after which no further round begins
)

func main() {
	write := flag.Bool("write", false, "write the ratios to "+last)
	show := flag.String("show", "", "print the figures of nine runs of the benchmarks that match this `pattern`")
	flag.Parse()
	if err := run(os.Stdout, *write, *show); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, write bool, show string) error {
	dir, err := os.MkdirTemp("", "guard")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := program(filepath.Join(dir, "bench.test"))
	if built, err := exec.Command("go", "test", "-vet=off", "-c", "-o", string(p), ".").CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, built)
	}
	if show != "" {
		return p.show(out, show)
	}
	text, err := os.ReadFile(last)
	if err != nil {
		return err
	}
	kept, err := parse(string(text))
	if err != nil {
		return err
	}
	if write {
		return p.keep(kept)
	}
	return p.compare(out, kept)
}

// A program is the file of the compiled benchmarks.
type program string

// measure adds the figures of a new process.
func (p program) measure(f figures, pattern, benchtime string) error {
	c := exec.Command(string(p), "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+benchtime)
	c.Env = append(os.Environ(), "BACKOFF_BENCH_CPU=1")
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	f.read(string(out))
	return nil
}

func (p program) show(out io.Writer, pattern string) error {
	f := figures{}
	for range many {
		if err := p.measure(f, pattern, "300ms"); err != nil {
			return err
		}
	}
	return f.print(out)
}

func (p program) keep(kept ratios) error {
	f := figures{}
	for range many {
		if err := p.measure(f, kept.pattern(), "20ms"); err != nil {
			return err
		}
	}
	var text strings.Builder
	for _, r := range kept {
		fmt.Fprintf(&text, "%s %.2f\n", r.name, f.ratio(r.name))
	}
	return os.WriteFile(last, []byte(text.String()), 0o666)
}

func (p program) compare(out io.Writer, kept ratios) error {
	f, begun := figures{}, time.Now()
	for round := 1; round <= few || round <= many && kept.slower(f) > 0 && time.Since(begun) < period; round++ {
		if err := p.measure(f, kept.pattern(), "20ms"); err != nil {
			return err
		}
	}
	if err := kept.print(out, f); err != nil {
		return err
	}
	if n := kept.slower(f); n > 0 {
		return fmt.Errorf("%d of %d have become slower by more than half; if they should be, make speed-baseline", n, len(kept))
	}
	return nil
}
