package clock

import "time"

// Skip is nil, except in tests whose waits take no time. While they take none, it
// moves the clock of Source ahead to the end of a wait of d, and returns true. It
// is set together with Source.
var Skip func(d time.Duration) bool

// Skips reports whether waits take no time now.
func Skips() bool { return Skip != nil && Skip(0) }

// Lasts returns how long a wait of d would last: d or, where waits are skipped, 0.
func Lasts(d time.Duration) time.Duration {
	if Skips() {
		return 0
	}
	return d
}

// Wait returns for how long a wait of d is to last: for d or, where waits are
// skipped, not at all. The clock is then at its end.
func Wait(d time.Duration) time.Duration {
	if Skip != nil && Skip(d) {
		return 0
	}
	return d
}

// Real returns the time without what was skipped. What limits the time of a call
// is measured by it.
func Real() time.Time {
	if Skip == nil {
		return Now()
	}
	return time.Now()
}
