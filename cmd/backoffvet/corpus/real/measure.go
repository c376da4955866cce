package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A cost is what a command took with all that it started.
type cost struct {
	cpu    time.Duration
	memory int64 // of the largest process, in bytes
}

// measure prints a row of the table of costs: those of go vet, of backoffvet as its tool, and of
// backoffvet by itself. What all three need is built before.
func (m module) measure() error {
	lines, err := m.lines()
	if err != nil {
		return err
	}
	id := fmt.Sprint(time.Now().UnixNano())
	tool := filepath.Join(*work, "measured")
	if err := build(tool, id); err != nil {
		return err
	}
	vet := m.costOf("go", "vet", "-printf.funcs=f"+id, "./...")
	asTool := m.costOf("go", "vet", "-vettool="+tool, "./...")
	alone := m.costOf(tool, "./...")
	per := float64(lines) / 100_000
	fmt.Printf("| %s | %d | %s | %s | %s | %.2f |\n", m.path, lines,
		vet.per(per), asTool.per(per), alone.per(per), asTool.cpu.Seconds()/vet.cpu.Seconds())
	return nil
}

func (c cost) per(lines float64) string {
	return fmt.Sprintf("%.1f s, %d MB", c.cpu.Seconds()/lines, c.memory>>20)
}

// costOf runs a command whose findings do not matter.
func (m module) costOf(name string, args ...string) cost {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = m.dir, m.environ()
	_ = cmd.Run()
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), used.Maxrss << 10}
}

// lines counts those of the files that are built.
func (m module) lines() (int, error) {
	const format = `{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`
	out, err := m.goTool(m.dir, "list", "-e", "-f", format, "./...")
	if err != nil {
		return 0, err
	}
	count := 0
	for _, name := range strings.Fields(string(out)) {
		content, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		count += bytes.Count(content, []byte("\n"))
	}
	return count, nil
}

// build builds backoffvet. What go vet remembers of a tool it forgets where id is another.
func build(tool, id string) error {
	cmd := exec.Command("go", "build", "-ldflags=-X=main.build="+id, "-o", tool, "../..")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
