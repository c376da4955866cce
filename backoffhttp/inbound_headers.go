package backoffhttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The bounds of a plausible number of attempts and time.
const (
	maxAttempt  = 1000
	maxDeadline = 24 * time.Hour
)

// The headers of other projects that only a server reads.
const (
	headerAWSRequest     = "Amz-Sdk-Request"                // attempt=1; max=3
	headerStainlessCount = "X-Stainless-Retry-Count"        // retries, from 0
	headerEnvoyTimeout   = "X-Envoy-Expected-Rq-Timeout-Ms" // milliseconds; 0: none
	headerGRPCTimeout    = "Grpc-Timeout"                   // digits and a unit
)

// attemptOf returns the number of the attempt, from 1, or 0 if the request does
// not say. If several layers have counted, the greatest number counts.
func attemptOf(header http.Header) int {
	return max(
		number(only(header, HeaderAttempt), 0),
		number(only(header, headerEnvoyAttempt), 0),
		number(only(header, headerGRPCAttempts), 1),
		number(only(header, headerStainlessCount), 1),
		attemptOfAWS(only(header, headerAWSRequest)))
}

// only returns the value of a field, or "" if there is none, or more than one.
func only(header http.Header, name string) string {
	if values := header[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// number reads a count of attempts and adds offset. A malformed or implausible one is
// 0.
func number(value string, offset int) int {
	n, ok := digits(value)
	if n += int64(offset); !ok || n < 1 || n > maxAttempt {
		return 0
	}
	return int(n)
}

// digits reads up to 10 ASCII digits.
func digits(value string) (int64, bool) {
	n, err := strconv.ParseUint(value, 10, 63)
	return int64(n), err == nil && len(value) <= 10
}

// attemptOfAWS reads the number of the attempt from "attempt=1; max=3".
func attemptOfAWS(value string) int {
	if len(value) > 200 {
		return 0
	}
	for part := range strings.SplitSeq(value, ";") {
		if attempt, ok := strings.CutPrefix(strings.TrimSpace(part), "attempt="); ok {
			return number(attempt, 0)
		}
	}
	return 0
}

// timeLeft returns the shortest time that a header says the client still waits,
// or false if no header says a plausible one.
func timeLeft(header http.Header) (time.Duration, bool) {
	left := timeout(only(header, HeaderDeadline), time.Millisecond)
	left = shorter(left, timeout(only(header, headerEnvoyTimeout), time.Millisecond))
	left = shorter(left, grpcTimeout(only(header, headerGRPCTimeout)))
	return left, left > 0
}

// grpcUnits are the units of Grpc-Timeout. Source: gRPC over HTTP/2,
// "Requests".
var grpcUnits = map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second,
	'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}

// grpcTimeout reads the value of Grpc-Timeout.
func grpcTimeout(value string) time.Duration {
	if len(value) < 2 || len(value) > 9 {
		return 0
	}
	last := len(value) - 1
	return timeout(value[:last], grpcUnits[value[last]])
}

// timeout reads a whole number of units. A malformed or implausible one is 0.
func timeout(value string, unit time.Duration) time.Duration {
	n, ok := digits(value)
	if !ok || unit == 0 || n > int64(maxDeadline/unit) {
		return 0
	}
	return time.Duration(n) * unit
}
