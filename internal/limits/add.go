package limits

import (
	"math"
	"time"
)

// Add returns a+b for a b of 0 or more, or the longest duration where the sum
// would overflow.
func Add(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}
