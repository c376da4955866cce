package presets

import (
	"time"

	"github.com/gobackoff/backoff"
)

// GRPCRetry is the retryPolicy that gRPC's design gives as its example: 4 attempts,
// min(1 s, 100 ms * 2^n), n from 0, times U(0.8, 1.2). The cap comes first, so that at it
// the wait is 0.8 to 1.2 s, beyond maxBackoff too. gRPC takes more than 5 attempts as 5.
//
// The design's text leaves the first wait uncapped; grpc-go caps it, as this does.
// Older revisions, and much that was written after them, have full jitter: for that,
// set Jitter to backoff.FullJitter.
//
// Source: gRFC A6, "Exponential Backoff".
func GRPCRetry() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: 4,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: time.Second},
		Jitter:      backoff.UniformJitter(0.8, 1.2),
	}
}

// GRPCConnection is how a gRPC channel reconnects: exactly 1 s at first, without jitter,
// then min(120 s, 1 s * 1.6^n) times U(0.8, 1.2), which at the cap is 96 to 144 s. It never
// gives up.
//
// gRPC counts the wait from the beginning of the attempt, so that a slow failure may be
// repeated at once; this counts from its end. An attempt to connect may take 20 s
// (MIN_CONNECT_TIMEOUT), or the wait where that is longer: that is for the operation to
// set, as AttemptTimeout would also end the connection that was made.
//
// Source: gRPC, connection-backoff.md. One revision prints 20 s as the initial backoff;
// 1 s is what grpc-go and the others use.
func GRPCConnection() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: time.Second, Max: 120 * time.Second, Multiplier: 1.6},
		Jitter:      afterFirst(time.Second, backoff.UniformJitter(0.8, 1.2)),
	}
}

// afterFirst leaves the first delay alone, and jitters those that have grown. It knows the first
// by its length, since the previous wait is 0 wherever there is no call.
func afterFirst(first time.Duration, jitter backoff.Jitter) backoff.Jitter {
	return func(delay, prev time.Duration, u float64) time.Duration {
		if delay <= first {
			return delay
		}
		return jitter(delay, prev, u)
	}
}
