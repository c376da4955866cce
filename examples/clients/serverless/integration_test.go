//go:build integration

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The test binary is also the program that runs many times.
func TestMain(m *testing.M) {
	if os.Getenv(envService) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTheAdviceOfAFleetSparesMostAttempts(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, 200); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	attempts := map[string]int{}
	for _, line := range strings.Split(out.String(), "\n") {
		for _, guard := range []string{alone, own, shared} {
			if _, row, ok := strings.Cut(line, guard); ok {
				var n int
				if _, err := fmt.Sscan(row, &n); err != nil {
					t.Fatal(err)
				}
				attempts[guard] = n
			}
		}
	}
	if attempts[alone] != 800 || attempts[own] != 600 {
		t.Errorf("got %v, want 800 attempts with a policy alone and 600 with a breaker", attempts)
	}
	if n := attempts[shared]; n == 0 || n > 400 {
		t.Errorf("got %d attempts with a shared breaker, want some, and at most 400", n)
	}
}
