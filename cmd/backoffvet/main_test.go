package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const program = `package main

import (
	"context"
	"time"
)

func get(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
}

func ask(ctx context.Context, call func(context.Context) error) {
	for call(ctx) != nil {
		time.Sleep(time.Second)
	}
}

func main() { _, _ = get, ask }
`

// built builds the command, and writes a program with a bug, and a test file with the same one.
func built(t *testing.T) (command, dir string) {
	t.Helper()
	command, dir = compiled(t), t.TempDir()
	write(t, dir, "go.mod", "module example.com/program\n\ngo 1.26\n")
	write(t, dir, "main.go", program)
	write(t, dir, "main_test.go", strings.NewReplacer("get", "get2", "ask", "ask2", "main()", "init()").Replace(program))
	return command, dir
}

var compile = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "backoffvet")
	if err != nil {
		return "", err
	}
	command := filepath.Join(dir, "backoffvet")
	return command, exec.Command("go", "build", "-o", command, ".").Run()
})

func compiled(t *testing.T) string {
	command, err := compile()
	require.NoError(t, err)
	return command
}

func TestMain(m *testing.M) {
	code := m.Run()
	if command, err := compile(); err == nil {
		_ = os.RemoveAll(filepath.Dir(command))
	}
	os.Exit(code)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := c.CombinedOutput()
	if _, findings := err.(*exec.ExitError); !findings {
		require.NoError(t, err, string(out))
	}
	return string(out)
}

func TestItRunsByItselfByGoVetAndWithFix(t *testing.T) {
	command, dir := built(t)
	const finding = "main.go:14:3: this sleep goes on"

	require.Contains(t, run(t, dir, command, "./..."), finding)
	require.NotContains(t, run(t, dir, command, "./..."), "main_test.go")
	require.Contains(t, run(t, dir, command, "-tests", "./..."), "main_test.go:14:3")
	require.NotContains(t, run(t, dir, command, "-lastsleep", "./..."), finding)

	vet := "-vettool=" + command
	require.Contains(t, run(t, dir, "go", "vet", vet, "./..."), finding)
	require.NotContains(t, run(t, dir, "go", "vet", vet, "./..."), "main_test.go")
	require.Contains(t, run(t, dir, "go", "vet", vet, "-tests", "./..."), "main_test.go:14:3")
	require.NotContains(t, run(t, dir, "go", "vet", vet, "-deafsleep=false", "./..."), finding)

	require.Contains(t, run(t, dir, command, "./..."), "for ctx.Done(), too (deafsleep)\n")
	require.Contains(t, run(t, dir, command, "-fix", "./..."), "main.go:25:3: this sleep")
	fixed, err := os.ReadFile(filepath.Join(dir, "main.go"))
	require.NoError(t, err)
	require.Contains(t, string(fixed), "case <-ctx.Done():\n\t\t\treturn errors.Join(err, ctx.Err())")
	require.NotContains(t, run(t, dir, command, "./..."), finding)
}

func TestTagsChooseTheFiles(t *testing.T) {
	command, dir := built(t)
	write(t, dir, "tagged.go", "//go:build tagged\n\n"+strings.NewReplacer("get", "get3", "ask", "ask3", "main()", "init()").Replace(program))
	for _, flag := range []string{"-tags=tagged", "--tags=tagged"} {
		require.Contains(t, run(t, dir, command, flag, "./..."), "tagged.go:")
	}
	require.Contains(t, run(t, dir, command, "-tags", "tagged", "./..."), "tagged.go:")
	require.NotContains(t, run(t, dir, command, "./..."), "tagged.go:")
}

func TestHelpNamesThePageOfARule(t *testing.T) {
	command, dir := built(t)
	require.Contains(t, run(t, dir, command, "help", "deafsleep"), "/docs/deafsleep.md")
}

func TestCodeThatDoesNotTypeCheckIsNoPanic(t *testing.T) {
	command, dir := built(t)
	write(t, dir, "main.go", program+"\nvar wrong int = \"\"\n")
	out := run(t, dir, command, "./...")
	require.Contains(t, out, "cannot use")
	require.NotContains(t, out, "panic")
	require.NotContains(t, out, "prerequisites")
}
