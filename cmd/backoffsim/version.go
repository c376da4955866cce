package main

import "runtime/debug"

// version is what the caption of a picture says of the program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return "backoffsim " + info.Main.Version
	}
	return "backoffsim"
}
