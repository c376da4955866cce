package main

import "runtime/debug"

// version is what the caption of a picture says of the program; empty where it was built
// from a working tree.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return ""
}
