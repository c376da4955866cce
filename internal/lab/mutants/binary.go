package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// An outcome is how the tests of a mutant ended.
type outcome int

const (
	untested outcome = iota
	killed
	timedOut
	survived
)

// A binary is the compiled tests of the package, with all mutants.
type binary struct {
	path, dir string
	skip      string        // tests that are left out
	slow      string        // tests that run after the others
	limit     time.Duration // for all tests
}

// test compiles the tests and runs them once for each mutant.
func (p *pkg) test(ctx context.Context, o options, mutants []*mutant, out io.Writer) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := p.build(ctx, dir, mutants)
	if err != nil {
		return err
	}
	b.skip = o.skip
	if err := b.calibrate(ctx, o.factor); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d mutants; a run may take %v\n", len(mutants), b.limit.Round(time.Second/10))
	var lock sync.Mutex // guards out and err
	var tests sync.WaitGroup
	turns := make(chan struct{}, max(1, o.parallel))
	for _, m := range mutants {
		turns <- struct{}{}
		tests.Go(func() {
			outcome, failed := b.test(ctx, m.number)
			lock.Lock()
			defer lock.Unlock()
			if m.outcome = outcome; outcome == survived {
				fmt.Fprintln(out, m)
			}
			err = errors.Join(err, failed)
			<-turns
		})
	}
	tests.Wait()
	return err
}

// build compiles the tests with the rewritten files instead of the real ones.
func (p *pkg) build(ctx context.Context, dir string, mutants []*mutant) (*binary, error) {
	replace := map[string]string{}
	for name, text := range p.rewritten(mutants) {
		replace[name] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(replace[name], []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	list, path := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "package.test")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay="+list, "-o="+path, ".")
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return &binary{path: path, dir: p.dir}, nil
}

// command runs the binary with a mutant, or with none if that is 0. The shell
// keeps a mutant that allocates without end from taking all memory. What tests
// that crash leave behind goes with the binary.
func (b *binary) command(ctx context.Context, mutant int, flags ...string) *exec.Cmd {
	args := append([]string{"-c", `ulimit -v 4000000 2>/dev/null; exec "$0" "$@"`, b.path}, flags...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir, cmd.WaitDelay = b.dir, time.Second
	cmd.Env = append(os.Environ(), fmt.Sprint("MUTANT=", mutant), "TMPDIR="+filepath.Dir(b.path))
	return cmd
}

// calibrate runs the tests without a change, and finds out how long they take
// and which of them are slow: longer than a fiftieth of all.
func (b *binary) calibrate(ctx context.Context, factor float64) error {
	began := time.Now()
	out, err := b.command(ctx, 0, "-test.v", "-test.skip="+b.skip).CombinedOutput()
	if err != nil {
		passed := regexp.MustCompile(`(?m)^\s*(===|--- PASS).*\n`)
		return fmt.Errorf("the tests fail without a change: %w\n%s", err, passed.ReplaceAll(out, nil))
	}
	took := time.Since(began)
	b.limit = time.Duration(factor*float64(took)) + 2*time.Second
	var slow []string
	for _, m := range regexp.MustCompile(`(?m)^--- PASS: (\w+) \((.+)\)$`).FindAllSubmatch(out, -1) {
		if d, err := time.ParseDuration(string(m[2])); err == nil && d > took/50 {
			slow = append(slow, string(m[1]))
		}
	}
	if len(slow) > 0 {
		b.slow = "^(" + strings.Join(slow, "|") + ")$"
	}
	return nil
}

// test runs the quick tests with a mutant and, if they pass, the slow ones.
func (b *binary) test(ctx context.Context, mutant int) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	err := b.command(limited, mutant, "-test.failfast", "-test.skip="+either(b.skip, b.slow)).Run()
	if err == nil && b.slow != "" {
		err = b.command(limited, mutant, "-test.failfast", "-test.skip="+b.skip, "-test.run="+b.slow).Run()
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return untested, nil
	case limited.Err() != nil:
		return timedOut, nil
	case err == nil:
		return survived, nil
	case errors.As(err, &exit):
		return killed, nil
	}
	return untested, err
}

// either joins two expressions, of which one may be empty.
func either(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "|" + b
}
