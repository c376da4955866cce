package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
)

// checkPicture refuses a file that cannot be written, before a long run.
func checkPicture(path string) error {
	if path == "" {
		return nil
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s cannot be written: there is no directory %s", path, dir)
	}
	return nil
}

// drawPicture draws c to a file, and removes the file if that fails. The path ""
// means no file.
func drawPicture(path string, c chart.Chart) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err = cmp.Or(chart.SVG(file, c), file.Close()); err != nil {
		os.Remove(path)
	}
	return err
}

// version returns the version of the program, and "" if it was built from a
// working tree.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return ""
}
