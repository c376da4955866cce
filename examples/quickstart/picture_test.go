package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestARowHasABarForEachLane(t *testing.T) {
	for _, c := range []struct {
		row  row
		want string
	}{
		{row{1, counts{attempts: 50}, counts{attempts: 50}}, "  1s  ██████ 50                        ██████ 50"},
		{row{2, counts{attempts: 145}, counts{attempts: 58, noBudget: 41}}, "  2s  ██████████████████ 145           ███████ 58     stopped by budget: 41"},
		{row{3, counts{attempts: 200}, counts{attempts: 3, noBudget: 2, open: 47}}, "  3s  █████████████████████████ 200    ▏ 3            stopped by breaker: 47"},
		{row{4, counts{}, counts{}}, "  4s  0                                0"},
	} {
		if got := c.row.line(false); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
}

func TestColoursMarkTheLanes(t *testing.T) {
	got := row{1, counts{attempts: 8}, counts{attempts: 8, open: 1}}.line(true)
	want := "  1s  \x1b[31m█\x1b[0m 8                              \x1b[32m█\x1b[0m 8            \x1b[2mstopped by breaker: 1\x1b[0m"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestColoursAreForTerminalsThatWantThem(t *testing.T) {
	for _, c := range []struct {
		env    map[string]string
		system string
		want   bool
	}{
		{map[string]string{"TERM": "xterm"}, "linux", true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, "linux", false},
		{map[string]string{"TERM": "dumb"}, "linux", false},
		{map[string]string{}, "windows", false},
		{map[string]string{"WT_SESSION": "1"}, "windows", true},
	} {
		if got := colours(func(name string) string { return c.env[name] }, c.system); got != c.want {
			t.Errorf("%v on %s: %v", c.env, c.system, got)
		}
	}
}

func TestAFileGetsNoColours(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if styleOf(f) {
		t.Error("a file is taken for a terminal")
	}
}
