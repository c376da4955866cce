// Package clocktest is for tests of code that must not be moved by a clock that
// is set.
package clocktest

import (
	"time"
	"unsafe"
)

// Set returns what a clock that read t would read if it had been set by a step
// of whole seconds: another time of day beside the same monotonic reading.
//
// It relies on the layout of time.Time: the highest bit of the first word says
// that there is a monotonic reading, and the 33 bits below it count seconds.
func Set(t time.Time, step time.Duration) time.Time {
	word := (*uint64)(unsafe.Pointer(&t))
	if *word>>63 == 1 {
		*word += uint64(step/time.Second) << 30
	}
	return t
}
