// Package clock is the one place the library reads the time.
//
// Tests need nothing here: testing/synctest replaces the clock under time.Now.
// The simulator cannot use it, because it advances time itself, for many
// thousands of clients on one goroutine; it sets Source instead.
package clock

import "time"

// Source replaces time.Now where it is not nil. It must be set before anything
// else in the program uses the library, and is set
// by the simulator, and for tests whose waits are skipped.
var Source func() time.Time

// Now returns the current time.
func Now() time.Time {
	if Source != nil {
		return Source()
	}
	return time.Now()
}

// Since returns the time elapsed since t. It costs half of what Now does.
func Since(t time.Time) time.Duration {
	if Source != nil {
		return Source().Sub(t)
	}
	return time.Since(t)
}
