package retryafter

import (
	"strconv"
	"time"
)

// Format returns the value of a Retry-After header for wait: seconds, rounded
// up.
func Format(wait time.Duration) string {
	n := int64(wait / time.Second)
	if wait%time.Second > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}
