//go:build integration

package main

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The test binary is also the program, and that of the drill's processes.
func TestMain(m *testing.M) {
	if os.Getenv("ONCALL_PARENT") != "" || os.Getenv(childVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTheProgramSaysWhereToLookAndWhatItMeans(t *testing.T) {
	var out bytes.Buffer
	must(t, run(t.Context(), &out, "", 2*time.Second))
	for _, want := range []string{
		`(?m)^service-5  page http://127\.0\.0\.1:\d+/debug/backoff/  metrics http`,
		`-d name="search" -d to="off" -d what="retries"`,
		`(?m)^\d\d:\d\d:\d\d  prices\.internal dies$`,
		`(?m)^prices\.internal .* \d+ of \d+ \(\d+ %\) +users$`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("it does not say %s:\n%s", want, &out)
		}
	}
}

func TestTheProgramEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	began := time.Now()
	var out bytes.Buffer
	must(t, run(ctx, &out, t.TempDir(), time.Hour))
	if took := time.Since(began); took > 20*time.Second || !strings.Contains(out.String(), "UPSTREAM") {
		t.Errorf("it took %v:\n%s", took, &out)
	}
}

// A parent that is killed cannot end its children.
func TestNoProcessOutlivesTheProgram(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-for", "1h", "-logs", t.TempDir())
	cmd.Env = append(os.Environ(), "ONCALL_PARENT=1")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var addresses []string
	for lines := bufio.NewScanner(out); len(addresses) < processes && lines.Scan(); {
		_, after, _ := strings.Cut(lines.Text(), "page http://")
		address, _, _ := strings.Cut(after, "/")
		addresses = append(addresses, address)
	}
	if len(addresses) != processes || !serves(addresses[0]) {
		t.Fatalf("the services are at %q, and do not serve", addresses)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, address := range addresses {
		for began := time.Now(); serves(address); time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > 10*time.Second {
				t.Fatalf("the service at %s has outlived its parent", address)
			}
		}
	}
}

func serves(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		conn.Close()
	}
	return err == nil
}
