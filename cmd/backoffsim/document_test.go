package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

// docs/results/simulation.md and docs/tuning.md quote the output of this program. Their
// blocks of the form
//
//	```console
//	$ backoffsim dip -load 0.5
//	what that prints
//	```
//
// are run in a directory that has the blocks after a comment "file NAME" as
// files. They must print what the page says, and those of docs/results/simulation.md
// must draw the pictures beside it. Blocks after a comment "long" are run only at
// night. With -update the tests write the pages and the pictures; "make
// sim-docs" sets both.
var update = flag.Bool("update", false, "write docs/results/simulation.md, its pictures and docs/tuning.md")

const docs = "../../docs"

// A quote is a fenced block of the page.
type quote struct {
	first, last int // lines of the block, without the fences
	file        string
	long        bool
	console     bool
}

var remark = regexp.MustCompile(`^<!-- (long|file (\S+)) -->$`)

// quotes returns the blocks that are files or commands.
func quotes(lines []string) (all []quote) {
	var next, current quote
	open := false
	for i, line := range lines {
		switch m := remark.FindStringSubmatch(line); {
		case m != nil && m[1] == "long":
			next.long = true
		case m != nil:
			next.file = m[2]
		case !open && strings.HasPrefix(line, "```"):
			open, current, next = true, next, quote{}
			current.first, current.console = i+1, line == "```console"
		case open && line == "```":
			open, current.last = false, i
			if current.console || current.file != "" {
				all = append(all, current)
			}
		}
	}
	return all
}

// commands returns the commands of a block. It joins lines that end in a
// backslash, and leaves out the output.
func (q quote) commands(lines []string) (shown []string) {
	more := false
	for _, line := range lines[q.first:q.last] {
		switch {
		case more:
			shown[len(shown)-1] += "\n" + line
		case strings.HasPrefix(line, "$ "):
			shown = append(shown, line)
		default:
			continue
		}
		more = strings.HasSuffix(line, `\`)
	}
	return shown
}

// run returns the block with the present output of its commands.
func (q quote) run(t *testing.T, dir string, lines []string) []string {
	t.Helper()
	var out []string
	for _, shown := range q.commands(lines) {
		c := exec.Command("sh", "-c", strings.TrimPrefix(shown, "$ "))
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"))
		printed, err := c.CombinedOutput()
		require.NoError(t, err, "%s\n%s", shown, printed)
		out = append(out, strings.Split(shown, "\n")...)
		if text := strings.TrimRight(string(printed), "\n"); text != "" {
			out = append(out, strings.Split(text, "\n")...)
		}
	}
	return out
}

// directory returns a directory with the program as bin/backoffsim.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "bin", "backoffsim")))
	return dir
}

func TestTheDocumentSaysWhatTheProgramDoes(t *testing.T) {
	nightly.Long(t)
	dir, ran := compare(t, "results/simulation.md")
	require.Greater(t, ran, 5, "blocks are found")
	comparePictures(t, dir)
}

func TestTheTuningGuideSaysWhatTheProgramDoes(t *testing.T) {
	_, ran := compare(t, "tuning.md")
	require.Equal(t, 1, ran)
}

// compare runs the commands of a page. It returns the directory in which they
// ran, and how many of its blocks did.
func compare(t *testing.T, page string) (dir string, ran int) {
	t.Helper()
	path := filepath.Join(docs, page)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	written := slices.Clone(lines)
	dir = directory(t)
	moved := 0
	for _, q := range quotes(lines) {
		body := lines[q.first:q.last]
		if q.file != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, q.file), []byte(strings.Join(body, "\n")+"\n"), 0o600))
			continue
		}
		if q.long && !nightly.On {
			continue
		}
		ran++
		now := q.run(t, dir, lines)
		if !*update {
			require.Equal(t, strings.Join(body, "\n"), strings.Join(now, "\n"), "line %d; make sim-docs writes it anew", q.first)
		}
		written = slices.Replace(written, q.first+moved, q.last+moved, now...)
		moved += len(now) - len(body)
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(written, "\n")), 0o644))
	}
	return dir, ran
}

// comparePictures requires that the pictures in dir are those of the page, byte
// for byte.
func comparePictures(t *testing.T, dir string) {
	t.Helper()
	drawn, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	require.NoError(t, err)
	require.NotEmpty(t, drawn)
	for _, path := range drawn {
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Less(t, len(now), 250_000, "%s is too much for a page", path)
		kept := filepath.Join(docs, "results", filepath.Base(path))
		if *update {
			require.NoError(t, os.WriteFile(kept, now, 0o644))
			continue
		}
		before, err := os.ReadFile(kept)
		require.NoError(t, err)
		require.True(t, string(before) == string(now), "%s is not what the document's command draws; make sim-docs draws it anew", kept)
	}
}
