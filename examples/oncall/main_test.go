package main

import (
	"os"
	"testing"
)

// The test binary is also the program, and that of the drill's processes.
func TestMain(m *testing.M) {
	if os.Getenv("ONCALL_PARENT") != "" || os.Getenv(childVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}
