package presets

import (
	"time"

	"github.com/gobackoff/backoff"
)

// GRPCRetry is the retryPolicy that gRPC's design gives as its example: 4
// attempts, min(1 s, 100 ms * 2^n), n from 0, times U(0.8, 1.2). The cap is
// applied before the jitter, so at the cap the wait is 0.8 to 1.2 s, which may
// be more than maxBackoff. gRPC takes more than 5 attempts as 5.
//
// The text of the design leaves the first wait uncapped; grpc-go caps it, and
// so does this policy. Older revisions, and many texts based on them, have full
// jitter: for that, set Jitter to backoff.FullJitter.
//
// Source: gRFC A6, "Exponential Backoff".
func GRPCRetry() backoff.Policy {
	return exponential(4, 100*time.Millisecond, time.Second, 2, backoff.UniformJitter(0.8, 1.2))
}

// GRPCConnection is how a gRPC channel reconnects: exactly 1 s at first,
// without jitter, then min(120 s, 1 s * 1.6^n) times U(0.8, 1.2), which at the
// cap is 96 to 144 s. It never gives up.
//
// gRPC counts the wait from the beginning of the attempt, so a slow failure may
// be repeated at once; this policy counts from the end of the attempt. An
// attempt to connect may take 20 s (MIN_CONNECT_TIMEOUT), or the wait if that
// is longer. The operation must set this timeout itself, as AttemptTimeout
// would also end the connection once it is made.
//
// Source: gRPC, connection-backoff.md. One revision prints 20 s as the initial
// backoff; grpc-go and the others use 1 s.
func GRPCConnection() backoff.Policy {
	jitter := afterFirst(time.Second, backoff.UniformJitter(0.8, 1.2))
	return exponential(-1, time.Second, 120*time.Second, 1.6, jitter)
}

// afterFirst jitters all delays but the first. It recognizes the first delay by
// its length, since outside a call the previous wait is always 0.
func afterFirst(first time.Duration, jitter backoff.Jitter) backoff.Jitter {
	return func(delay, prev time.Duration, u float64) time.Duration {
		if delay <= first {
			return delay
		}
		return jitter(delay, prev, u)
	}
}
