package main

import (
	"os"
	"runtime"
)

// A style says whether to colour.
type style bool

// styleOf colours what goes to a terminal, unless NO_COLOR is set.
func styleOf(f *os.File) style {
	info, err := f.Stat()
	return style(err == nil && info.Mode()&os.ModeCharDevice != 0 && colours(os.Getenv, runtime.GOOS))
}

// colours reports whether a terminal should get colours, and can show them. The
// old console of Windows cannot.
func colours(env func(string) string, system string) bool {
	return env("NO_COLOR") == "" && env("TERM") != "dumb" && (system != "windows" || env("WT_SESSION") != "")
}

func (s style) bold(text string) string  { return s.wrap("1", text) }
func (s style) dim(text string) string   { return s.wrap("2", text) }
func (s style) red(text string) string   { return s.wrap("31", text) }
func (s style) green(text string) string { return s.wrap("32", text) }

func (s style) wrap(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
