//go:build integration

package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestCallsAreCarriedThroughARestartAFailoverAndAMove(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, policy); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	want := []string{
		"attempt 1: retry: ", // the answer that was lost
		"attempt 2: retry: LOADING",
		"attempt 3: retry: READONLY",
		"attempt 4: retry: MOVED",
		"attempt 5: success",
		"the server was called 5 times, and is at " + server,
		"attempt 1: give up: WRONGTYPE",
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(want), &out)
	}
	for i, prefix := range want {
		if !strings.HasPrefix(lines[i], prefix) {
			t.Errorf("got %q, want %q", lines[i], prefix)
		}
	}
}
