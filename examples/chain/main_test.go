package main

import (
	"bytes"
	"regexp"
	"strconv"
	"testing"
)

func TestRow37FourAttemptsAtTheLeafNot64(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`without a word: 1 calls, 1 failed; requests 4, 16, 64; 64\.00 at the last service per call`,
		`with WriteError: 1 calls, 1 failed; requests 1, 1, 4; 4\.00 at the last service per call`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(out.Bytes()) {
			t.Errorf("no line %s in\n%s", line, &out)
		}
	}
}

var result = regexp.MustCompile(` (\d+) failed; .*; (\d+\.\d+) at`)

// factor returns how many calls failed, and how many requests the last service
// got per call.
func factor(t *testing.T, out *bytes.Buffer) (failed int, cost float64) {
	t.Helper()
	parts := result.FindStringSubmatch(out.String())
	if parts == nil {
		t.Fatalf("got %q", out)
	}
	failed, err := strconv.Atoi(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	if cost, err = strconv.ParseFloat(parts[2], 64); err != nil {
		t.Fatal(err)
	}
	return failed, cost
}

func TestRow41WithBudgetsAnOutageCostsTheLeafATenthAtMost(t *testing.T) {
	var out bytes.Buffer
	if err := outage(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if failed, cost := factor(t, &out); failed != 200 || cost < 1 || cost > 1.15 {
		t.Error(out.String())
	}
}

func TestRow41WithBudgetsErrorsHardlyShow(t *testing.T) {
	var out bytes.Buffer
	if err := flaky(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if failed, cost := factor(t, &out); failed > 10 || cost < 1.05 || cost > 1.15 {
		t.Error(out.String())
	}
}
