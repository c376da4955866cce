// Package nightly gives tests two sizes: one for every change, and a larger one
// for the night. The build tag nightly, as set by "make nightly", chooses the
// larger.
package nightly

import "testing"

// Size returns usual, or atNight if tests run at the size of the night.
func Size[T any](usual, atNight T) T {
	if On {
		return atNight
	}
	return usual
}

// Long skips a test if -short is set, as make race and make test-all do: it takes long, and shorter
// ones would find most of what it finds.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() && !On {
		t.Skip("left out by -short")
	}
}
