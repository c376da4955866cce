// Package nightly gives tests two sizes: one for every change, and a larger one
// for the night. The build tag nightly, as set by "make nightly", chooses the
// larger.
package nightly

// Size returns usual, or atNight if tests run at the size of the night.
func Size[T any](usual, atNight T) T {
	if On {
		return atNight
	}
	return usual
}
