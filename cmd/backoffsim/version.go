package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

func runVersion(t *terminal, c *command, args []string) error {
	if err := t.parse(c, c.flags(), "", "Prints the version of backoffsim and of the Go that built it.", args); err != nil {
		return err
	}
	v := version()
	if v == "" {
		v = "of a working tree"
	}
	_, err := fmt.Fprintf(t.out, "backoffsim %s, %s %s/%s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
