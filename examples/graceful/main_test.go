package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

// The test binary is also the program.
func TestMain(m *testing.M) {
	if os.Getenv("GRACEFUL") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start runs the program in a process of its own, and returns when it has
// written the line that ends in text.
func start(t *testing.T, text string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than the wait
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GRACEFUL=1")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return cmd, lines
		}
	}
	t.Fatalf("the program ended before it wrote %q", text)
	return nil, nil
}

// finish sends SIGTERM, and returns what the program wrote after it, and its
// exit code.
func finish(t *testing.T, cmd *exec.Cmd, lines *bufio.Scanner) (string, int) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
	}
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return journal.Normal(text.String()), cmd.ProcessState.ExitCode()
}

func TestASignalEndsTheProgram(t *testing.T) {
	for name, c := range map[string]struct {
		after string // the line that the signal follows
		args  []string
		want  string
		code  int
	}{
		"an attempt under way finishes": {
			"order 1", nil, "-- the signal\nattempt 1 of 4 succeeded\n", 0,
		},
		"an attempt under way that fails is not repeated": {
			"order 1", []string{"-down"},
			"-- the signal\nattempt 1 of 4 failed: status 503 Service Unavailable (retryable); gave up: canceled\n", 1,
		},
		"a wait ends at once": {"again in", []string{"-down"}, "no attempt 2, gave up: canceled\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, lines := start(t, c.after, c.args...)
			got, code := finish(t, cmd, lines)
			sum := "in all: 1 attempt in TIME, with waits of TIME\n"
			if !strings.Contains(got, c.want) || !strings.Contains(got, sum) || code != c.code {
				t.Errorf("exit code %d, got\n%s\nwant\n%s", code, got, c.want)
			}
		})
	}
}

func TestASecondSignalKillsTheProgram(t *testing.T) {
	t.Parallel()
	cmd, lines := start(t, "order 1")
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-time.After(20 * time.Millisecond):
				cmd.Process.Signal(syscall.SIGTERM)
			case <-done:
				return
			}
		}
	}()
	if got, code := finish(t, cmd, lines); strings.Contains(got, "succeeded") || code != -1 {
		t.Errorf("exit code %d, got\n%s", code, got)
	}
}
