package compare

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
	"github.com/gobackoff/backoff/internal/nightly"
)

const (
	root     = "../../.." // of the repository
	document = root + "/docs/results/comparison.md"
)

var update = flag.Bool("update", false, "write what was observed into "+document)

// An observation puts a question to one library and returns the answer, as it
// stands in the table.
type observation func(t *testing.T) string

// A row is one question.
type row struct {
	name     string // of the sub-test
	question string
	answers  map[string]observation // by library; one that has nothing of the kind is absent
	test     string                 // this library's own, which is found by its name
}

// A table is a list of questions to the same libraries.
type table struct {
	name      string
	libraries []string // in the order of the columns
	rows      []row
}

var tables = []table{retries, budgets, breakers, clients, limits, hedges}

const (
	nothing = "–"
	ours    = "backoff"
)

func TestComparison(t *testing.T) {
	nightly.Long(t)
	text := docpagetest.Read(t, document)
	for _, table := range tables {
		lines := []string{table.head(), table.rule()}
		for _, r := range table.rows {
			t.Run(r.name, func(t *testing.T) {
				line := table.line(t, r)
				lines = append(lines, line)
				if !*update {
					require.Equal(t, documented(text, r.name), line, "%s says otherwise", document)
				}
			})
		}
		if len(lines) == len(table.rows)+2 { // or -run has left some out
			docpagetest.Table(t, document, table.name, lines, *update)
		}
	}
}

// documented returns the line of a row as it stands in the document.
func documented(text, name string) string {
	_, rest, _ := strings.Cut(text, "\n| `"+name+"` |")
	line, _, _ := strings.Cut(rest, "\n")
	return "| `" + name + "` |" + line
}

func (c table) head() string {
	return "| Row | Question | " + strings.Join(c.libraries, " | ") + " | Our test |"
}

func (c table) rule() string { return strings.Repeat("|---", strings.Count(c.head(), " | ")+1) + "|" }

// line puts the question to every library.
func (c table) line(t *testing.T, r row) string {
	cells := []string{"`" + r.name + "`", r.question}
	for _, library := range c.libraries {
		answer := nothing
		if ask := r.answers[library]; ask != nil {
			t.Run(library, func(t *testing.T) { answer = ask(t) })
		}
		cells = append(cells, answer)
	}
	cells = append(cells, r.proof(t))
	return "| " + strings.Join(cells, " | ") + " |"
}

// proof links to the library's own test, which must exist.
func (r row) proof(t *testing.T) string {
	if r.test == "" {
		return nothing
	}
	file := ownTests()[r.test]
	require.NotEmpty(t, file, "there is no %s", r.test)
	return fmt.Sprintf("[%s](../../%s)", r.test, file)
}

// ownTests returns the tests of the library with their files.
var ownTests = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, dir := range []string{"", "*", "cmd/backoffsim/sim"} {
		files, _ := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
				if name := string(match[1]); all[name] == "" { // the root's, if there are several
					inside, _ := filepath.Rel(root, file)
					all[name] = filepath.ToSlash(inside)
				}
			}
		}
	}
	return all
})

// virtual makes the observation in virtual time. Whatever still sleeps when it
// is made gets the time to wake up, for otherwise the test would count as
// stuck.
func virtual(observe observation) observation {
	return func(t *testing.T) (seen string) {
		synctest.Test(t, func(t *testing.T) {
			seen = observe(t)
			time.Sleep(24 * time.Hour)
		})
		return seen
	}
}

// each makes an observation of every library in a map, by the same function.
func each[L any](libraries map[string]L, observe func(*testing.T, L) string) map[string]observation {
	all := map[string]observation{}
	for name, library := range libraries {
		all[name] = virtual(func(t *testing.T) string { return observe(t, library) })
	}
	return all
}

// with adds the answers of libraries that are asked in another way.
func with(all map[string]observation, more map[string]observation) map[string]observation {
	for name, observe := range more {
		all[name] = observe
	}
	return all
}

// said adds to what was seen in libraries what their own documents say of it.
func said(all map[string]observation, notes map[string]string) map[string]observation {
	for name, note := range notes {
		observe := all[name]
		all[name] = func(t *testing.T) string { return observe(t) + " (" + note + ")" }
	}
	return all
}

// also asks a library as it is, and if it is set up in another way.
func also[L any](observe func(*testing.T, L) string, library, other L, how string) observation {
	of := each(map[string]L{"": library, "other": other}, observe)
	return or(of[""], of["other"], how)
}

// or adds what is seen in a library if it is set up in another way.
func or(observe, other observation, how string) observation {
	return func(t *testing.T) string { return observe(t) + "; " + other(t) + " with " + how }
}

const childVariable = "COMPARE_CHILD"

// children are observations that may end the process.
var children = map[string]func() string{}

// child makes an observation in a process of its own, and returns what that
// prints, or that it was ended.
func child(name string, observe func() string) observation {
	children[name] = observe
	return func(*testing.T) string {
		out, err := childProcess(name).Output()
		if err != nil {
			return "ends the process"
		}
		return string(out)
	}
}

func childProcess(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+name)
	return cmd
}

func TestMain(m *testing.M) {
	if observe := children[os.Getenv(childVariable)]; observe != nil {
		fmt.Print(observe())
		return
	}
	os.Exit(m.Run())
}

// peers are the modules of the tables, with the column that they have there, when the version was
// released, and the licence.
var peers = []struct{ column, path, released, licence string }{
	{"cenkalti", "github.com/cenkalti/backoff/v7", "2026-11-01", "MIT"},
	{"avast", "github.com/avast/retry-go/v5", "2026-11-04", "MIT"},
	{"sethvargo", "github.com/sethvargo/go-retry", "2026-10-05", "Apache-2.0"},
	{"failsafe-go", "github.com/failsafe-go/failsafe-go", "2026-09-30", "MIT"},
	{"gobreaker", "github.com/sony/gobreaker/v2", "2026-01-01", "MIT"},
	{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", "2025-06-18", "MPL-2.0"},
	{"resty", "resty.dev/v3", "2026-09-06", "MIT"},
}

// The versions in the document are those that the tests run against.
func TestVersions(t *testing.T) {
	lines := []string{"| Column | Module | Version | Released | Needs Go | Licence |", "|---|---|---|---|---|---|"}
	for _, p := range peers {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} | {{or .GoVersion \"–\"}}", p.path).Output()
		require.NoError(t, err, p.path)
		version, needs, _ := strings.Cut(strings.TrimSpace(string(out)), " | ")
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", p.column, p.path, version, p.released, needs, p.licence))
	}
	docpagetest.Table(t, document, "versions", lines, *update)
}
