//go:build nightly

package nightly

// On says that tests run at the size of the night.
const On = true
