// Command ratios copies the output of go test -bench from standard input to
// standard output, and then prints a table for each scenario: what every
// candidate costs, as a multiple of the floor, of the best peer, and of what is
// promised.
//
// Of repeated runs the least figure counts: noise only adds.
//
//	go test -bench . | go run ./ratios
//
// With -write it also writes the tables as a page of Markdown, with the words
// of notes.md. It refuses to if a bar is missed, or a peer ahead, and the notes
// do not say why; and if they are about a scenario that was not run, or silent
// about one that was. The input should then begin with lines that say when it
// was made, and how: see page.go.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	page := flag.String("write", "", "also write the tables to this `file`, as Markdown")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *page); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, page string) error {
	r, err := read(io.TeeReader(in, out))
	if err != nil {
		return err
	}
	for _, s := range r.scenarios {
		fmt.Fprintln(out)
		if err := s.print(out, r); err != nil {
			return err
		}
	}
	if r.failed {
		return fmt.Errorf("the benchmarks failed")
	}
	if page == "" {
		return nil
	}
	return write(page, r)
}

func write(file string, r *results) error {
	mod, err := os.ReadFile("../go.mod") // it runs in the directory of the benchmarks
	if err != nil {
		return err
	}
	notes, err := parseNotes(words)
	if err != nil {
		return err
	}
	p := page{results: r, notes: notes, versions: requirements(string(mod))}
	if problems := p.problems(); len(problems) > 0 {
		return fmt.Errorf("%s is left as it was:\n\t%s", file, strings.Join(problems, "\n\t"))
	}
	return os.WriteFile(file, []byte(p.markdown()), 0o666)
}

// read takes the whole output of any number of runs.
func read(in io.Reader) (*results, error) {
	r := &results{facts: map[string]string{}}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		r.read(lines.Text())
	}
	return r, lines.Err()
}
