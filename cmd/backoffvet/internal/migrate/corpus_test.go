package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An outcome is what the corpus writes about a site in a scenario.
type outcome struct {
	Attempts float64
	Waits    []float64
	Errors   map[string]int
}

// The corpus is a module with call sites of the old libraries, as programs have them. Its test runs
// each in virtual time, and it does the same before and after it is migrated.
func TestTheCorpusDoesTheSameAfterItIsMigrated(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	before := run(t, corpus(t))
	dir := corpus(t)
	moved, all := migrateAll(t, dir)
	after := run(t, dir)
	require.ElementsMatch(t, slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	for name, was := range before {
		requireSame(t, name, was, after[name])
	}
	t.Run("a second time changes nothing", func(t *testing.T) {
		for _, f := range migratedIn(t, dir).files {
			require.Empty(t, f.edits, f.name)
		}
	})
	t.Logf("%d of %d call sites are migrated, %d %%", moved, all, 100*moved/all)
	require.GreaterOrEqual(t, all, 40)
	require.GreaterOrEqual(t, 100*moved, 60*all)
}

// corpus copies the corpus, and has it find the library.
func corpus(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/corpus")))
	library, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	command(t, dir, "go", "mod", "edit", "-replace="+root+"="+library)
	return dir
}

// migrateAll migrates a module.
func migrateAll(t *testing.T, dir string) (moved, all int) {
	p := migratedIn(t, dir)
	require.NoError(t, p.write())
	notes, moved := p.notes()
	for _, note := range notes {
		t.Log(strings.TrimPrefix(note, dir+"/"))
	}
	return moved, len(p.sites)
}

func migratedIn(t *testing.T, dir string) *program {
	p, err := migrated(dir, []string{"./..."})
	require.NoError(t, err)
	require.Empty(t, p.skipped)
	return p
}

// run runs the sites of a module.
func run(t *testing.T, dir string) (all map[string]outcome) {
	name := filepath.Join(t.TempDir(), "outcomes.json")
	t.Setenv("OUTCOMES", name)
	command(t, dir, "go", "test", "-vet=off", "-count=1", ".")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

// requireSame allows for chance, for an error that says more than the old one, and for the tenth
// by which a wait that a server asks for is spread.
func requireSame(t *testing.T, name string, was, is outcome) {
	t.Helper()
	require.InEpsilon(t, was.Attempts, is.Attempts, 0.06, "%s: %s", name, fmt.Sprint(was, is))
	for kind, n := range was.Errors {
		require.GreaterOrEqual(t, is.Errors[kind], n-50, "%s: %s: %s", name, kind, fmt.Sprint(was, is))
	}
	require.Equal(t, was.Errors["nil"], is.Errors["nil"], "%s", name)
	n := min(len(was.Waits), len(is.Waits))
	require.LessOrEqual(t, math.Abs(float64(len(was.Waits)-len(is.Waits))), 1.0, "%s: %s", name, fmt.Sprint(was, is))
	for i := range n {
		require.InDelta(t, was.Waits[i], is.Waits[i], 0.15*was.Waits[i]+1e-6, "%s: %s", name, fmt.Sprint(was, is))
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Run(), "%s", &out)
	return out.String()
}
