package main

import (
	"bytes"
	"regexp"
	"strconv"
	"testing"
)

func TestFourAttemptsAtTheLeafNot64(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`3 is down, nobody says so +1 +1 +4 +16 +64 +64\.00`,
		`3 is down, WriteError says: do not retry +1 +1 +1 +1 +4 +4\.00`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(out.Bytes()) {
			t.Errorf("no line %s in\n%s", line, &out)
		}
	}
}

var result = regexp.MustCompile(` (\d+) +\d+ +\d+ +\d+ +(\d+\.\d+)\n`)

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

func TestWithBudgetsAnOutageCostsTheLeafATenthAtMost(t *testing.T) {
	var out bytes.Buffer
	if err := outage(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if failed, cost := factor(t, &out); failed != 200 || cost < 1 || cost > 1.15 {
		t.Error(out.String())
	}
}

func TestWithBudgetsErrorsHardlyShow(t *testing.T) {
	var out bytes.Buffer
	if err := flaky(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if failed, cost := factor(t, &out); failed > 10 || cost < 1.05 || cost > 1.15 {
		t.Error(out.String())
	}
}
