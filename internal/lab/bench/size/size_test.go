package size

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	// What the tests build: a change of it makes their cached results stale.
	_ "github.com/gobackoff/backoff/backoffhttp"
)

// The most that Policy.Do may add to a program, in KiB: to one that has
// net/http already, and to one that has next to nothing.
const limitHTTP = 135

// limitBare returns the second one: the runtime of Go 1.27 has more to add.
func limitBare() int64 {
	if strings.HasPrefix(runtime.Version(), "go1.27") {
		return 362
	}
	return 340
}

func TestGrowthBesideNetHTTP(t *testing.T) {
	check(t, "Policy.Do beside net/http", build(t, "httpdo")-build(t, "http"), limitHTTP)
}

func TestGrowthOfBareProgram(t *testing.T) {
	check(t, "Policy.Do alone", build(t, "baredo")-build(t, "bare"), limitBare())
}

// TestNoHeavyPackages holds the promise that a program is not made to carry
// what it does not use: one constant of net/http would double it.
func TestNoHeavyPackages(t *testing.T) {
	out, err := command("list", "-deps", "./testdata/baredo").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"net", "net/http", "log", "log/slog", "expvar", "testing", "encoding/json"} {
		if slices.Contains(strings.Fields(string(out)), pkg) {
			t.Errorf("a program that uses the library alone contains %s", pkg)
		}
	}
}

// guarded is what a program of backoffhttp.Unguarded has no use for.
var guarded = regexp.MustCompile(`^github\.com/gobackoff/backoff(/(pace|guard|guard/internal/line)\.\(|\.\(\*Breaker\)\.Do$)`)

func TestAProgramOfUnguardedCarriesNoGuards(t *testing.T) {
	without := build(t, "http")
	for _, program := range []string{"transport", "unguarded"} {
		t.Logf("%s beside net/http: %d KiB", program, (build(t, program)-without)>>10)
		file := link(t, program, "")
		symbols, err := file.Symbols()
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, s := range symbols {
			// For all that the linker knows, a Budget may be what is asked to Validate.
			if guarded.MatchString(s.Name) && !strings.HasSuffix(s.Name, ".Validate") {
				found = append(found, s.Name)
			}
		}
		if (len(found) == 0) != (program == "unguarded") {
			t.Errorf("%s contains %d functions of guards: %q", program, len(found), found)
		}
	}
}

func check(t *testing.T, what string, bytes, limit int64) {
	t.Helper()
	t.Logf("%s: %d KiB", what, bytes>>10)
	if bytes>>10 > limit {
		t.Errorf("%s adds %d KiB, want %d at most", what, bytes>>10, limit)
	}
}

// build returns the size of a program: the sum of its sections. That of its file
// has gaps, which bring each section to a whole page: a byte more may cost 4 KiB.
func build(t *testing.T, program string) (size int64) {
	t.Helper()
	for _, section := range link(t, program, "-s -w").Sections {
		if section.Type != elf.SHT_NOBITS {
			size += int64(section.Size)
		}
	}
	return size
}

// link builds a program.
func link(t *testing.T, program, flags string) *elf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), program)
	out, err := command("build", "-buildvcs=false", "-trimpath", "-ldflags="+flags, "-o", path, "./testdata/"+program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOWORK=off")
	return cmd
}
