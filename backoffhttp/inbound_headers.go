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
		number(header, HeaderAttempt, 0),
		number(header, headerEnvoyAttempt, 0),
		number(header, headerGRPCAttempts, 1),
		number(header, headerStainlessCount, 1),
		attemptOfAWS(header))
}

// number reads a count of attempts and adds offset. A malformed one is 0.
func number(header http.Header, name string, offset int) int {
	values := header[name]
	if len(values) != 1 {
		return 0
	}
	return bounded(values[0], offset)
}

// bounded reads a count of attempts and adds offset. An implausible one is 0.
func bounded(value string, offset int) int {
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
func attemptOfAWS(header http.Header) int {
	values := header[headerAWSRequest]
	if len(values) != 1 || len(values[0]) > 200 {
		return 0
	}
	for part := range strings.SplitSeq(values[0], ";") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(part), "attempt="); ok {
			return bounded(value, 0)
		}
	}
	return 0
}

// timeLeft returns the shortest time that a header says the client still waits,
// or false if no header says a plausible one.
func timeLeft(header http.Header) (time.Duration, bool) {
	var shortest time.Duration
	for _, d := range [...]time.Duration{
		timeout(header[HeaderDeadline], time.Millisecond),
		timeout(header[headerEnvoyTimeout], time.Millisecond),
		grpcTimeout(header[headerGRPCTimeout]),
	} {
		if d > 0 && d <= maxDeadline && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	return shortest, shortest > 0
}

// grpcUnits are the units of Grpc-Timeout. Source: gRPC over HTTP/2,
// "Requests".
var grpcUnits = map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second,
	'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}

// grpcTimeout reads the values of Grpc-Timeout.
func grpcTimeout(values []string) time.Duration {
	if len(values) != 1 || len(values[0]) < 2 || len(values[0]) > 9 {
		return 0
	}
	last := len(values[0]) - 1
	return timeout([]string{values[0][:last]}, grpcUnits[values[0][last]])
}

// timeout reads a whole number of units. A malformed or implausible one is 0.
func timeout(values []string, unit time.Duration) time.Duration {
	if len(values) != 1 || unit == 0 {
		return 0
	}
	n, ok := digits(values[0])
	if !ok || n > int64(maxDeadline/unit) {
		return 0
	}
	return time.Duration(n) * unit
}
