// Package migrate rewrites calls of cenkalti/backoff to calls of package backoff with the same
// behaviour.
package migrate

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

// Run migrates the packages that the arguments name, as "-migrate cenkalti ./..." does. It writes
// the files, and a summary to w. It returns the exit status.
func Run(args []string, w io.Writer) int {
	flags := flag.NewFlagSet("backoffvet -migrate", flag.ContinueOnError)
	flags.SetOutput(w)
	library := flags.String("migrate", "", "the library to move from: cenkalti")
	if flags.Parse(args) != nil {
		return 2
	}
	if *library != "cenkalti" {
		fmt.Fprintf(w, "backoffvet: -migrate knows cenkalti, and not %q\n", *library)
		return 2
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	p, err := migrated(".", patterns)
	if err == nil {
		err = p.write()
	}
	if err != nil {
		fmt.Fprintln(w, "backoffvet:", err)
		return 1
	}
	p.summary(w)
	return 0
}

// migrated loads packages and decides what becomes of them.
func migrated(dir string, patterns []string) (*program, error) {
	p, err := load(dir, patterns)
	if err != nil {
		return nil, err
	}
	migrateCenkalti(p)
	p.comment()
	return p, nil
}

// write writes the files that change.
func (p *program) write() error {
	for _, f := range p.files {
		if len(f.edits) == 0 {
			continue
		}
		text, err := f.result()
		if err == nil {
			err = os.WriteFile(f.name, text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// summary says how much is migrated, what is not, and what remains to be done by hand.
func (p *program) summary(w io.Writer) {
	notes, moved := p.notes()
	for _, note := range slices.Concat(p.skipped, notes) {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintf(w, "%d of %d call sites are migrated.\n", moved, len(p.sites))
	if moved > 0 {
		fmt.Fprintln(w, "Then run: go get github.com/gobackoff/backoff && go mod tidy")
	}
}

// notes returns a line for each site that is not migrated, or that needs a look, and how many sites
// are migrated.
func (p *program) notes() (lines []string, moved int) {
	for _, s := range p.sites {
		at := p.fset.Position(s.node.Pos())
		if s.reason == "" {
			moved++
		} else {
			lines = append(lines, fmt.Sprintf("%s: not migrated: %s", at, s.reason))
		}
		for _, note := range s.notes {
			lines = append(lines, fmt.Sprintf("%s: %s", at, note))
		}
	}
	return lines, moved
}

const root = "github.com/gobackoff/backoff"
