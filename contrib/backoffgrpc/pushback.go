package backoffgrpc

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// parsePushback reads grpc-retry-pushback-ms, given all its values, and returns
// what [backoff.Pushback] takes. It returns false if there is no value.
// A negative number, a malformed value and more than one value all mean "do not
// retry", and give -1. Large numbers saturate.
//
// Source: gRFC A6, "Pushback".
func parsePushback(values []string) (time.Duration, bool) {
	switch {
	case len(values) == 0:
		return 0, false
	case len(values) > 1 || values[0] == "" || strings.Trim(values[0], "0123456789") != "":
		return -1, true
	}
	ms, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, true
	}
	return time.Duration(ms) * time.Millisecond, true
}
