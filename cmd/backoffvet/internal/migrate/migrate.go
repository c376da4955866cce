// Package migrate rewrites calls of other retry libraries to calls of package backoff with the same
// behaviour. The pages of docs/moving say what becomes of what.
package migrate

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// libraries are the values of -migrate, and what finds the calls of each.
var libraries = map[string]func(*program){
	"cenkalti":      migrateCenkalti,
	"dskit":         migrateDskit,
	"retryablehttp": migrateRetryableHTTP,
}

// Run migrates the packages that the arguments name, as "-migrate cenkalti ./..." does. It writes a
// diff to stdout, or with -w the files, and a summary to stderr. It returns the exit status.
func Run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("backoffvet -migrate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	library := flags.String("migrate", "", "the library to move from: cenkalti, dskit or retryablehttp")
	write := flags.Bool("w", false, "write the files instead of a diff")
	if flags.Parse(args) != nil {
		return 2
	}
	if libraries[*library] == nil {
		fmt.Fprintf(stderr, "backoffvet: -migrate knows cenkalti, dskit and retryablehttp, and not %q\n", *library)
		return 2
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	p, err := migrated(".", *library, patterns)
	if err == nil {
		err = p.output(stdout, *write)
	}
	if err != nil {
		fmt.Fprintln(stderr, "backoffvet:", err)
		return 1
	}
	p.summary(stderr)
	return 0
}

// migrated loads packages and decides what becomes of them.
func migrated(dir, library string, patterns []string) (*program, error) {
	p, err := load(dir, patterns)
	if err != nil {
		return nil, err
	}
	libraries[library](p)
	p.comment()
	return p, nil
}

// output writes the files that change, or what changes in them.
func (p *program) output(stdout io.Writer, write bool) error {
	var errs []error
	for _, f := range p.files {
		if len(f.edits) == 0 {
			continue
		}
		if err := f.output(stdout, write); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// summary says how much is migrated, what is not, and what remains to be done by hand.
func (p *program) summary(w io.Writer) {
	for _, note := range slices.Concat(p.skipped, p.notes()) {
		fmt.Fprintln(w, note)
	}
	moved := p.moved()
	fmt.Fprintf(w, "%d of %d call sites are migrated.\n", moved, len(p.sites))
	if moved > 0 {
		fmt.Fprintln(w, "Then run: go get github.com/gobackoff/backoff && go mod tidy")
	}
}

// moved is the number of sites that are migrated.
func (p *program) moved() int {
	n := 0
	for _, s := range p.sites {
		if s.reason == "" {
			n++
		}
	}
	return n
}

// notes returns a line for each site that is not migrated, or that needs a look.
func (p *program) notes() []string {
	var lines []string
	for _, s := range p.sites {
		at := p.fset.Position(s.node.Pos())
		if s.reason != "" {
			lines = append(lines, fmt.Sprintf("%s: not migrated: %s", at, s.reason))
		}
		for _, note := range s.notes {
			lines = append(lines, fmt.Sprintf("%s: %s", at, note))
		}
	}
	return lines
}

// isOurs reports whether a path is that of a package of this library.
func isOurs(path string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

const root = "github.com/gobackoff/backoff"
