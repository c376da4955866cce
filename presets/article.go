package presets

import (
	"time"

	"github.com/gobackoff/backoff"
)

// Canonical waits min(30 s, 100 ms * factor^n), n from 0, and so exactly 30 s
// from some retry on. The article's factor is 2, which 0 means too, or 1.5
// where many clients share a resource. The article recommends 3 to 5 attempts;
// the library's default is 4.
//
// Source: "Exponential Backoff and Retry Strategy". Its text lets the fifth
// retry wait up to 3.2 s. Its table, which counts from 0, gives 1.6 s; 3.2 s is
// the sixth. This follows the table; Initial: 200 ms follows the text.
func Canonical(factor float64) backoff.Policy {
	return exponential(0, 100*time.Millisecond, 30*time.Second, factor, backoff.NoJitter)
}
