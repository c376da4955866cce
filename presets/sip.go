package presets

import (
	"cmp"
	"time"

	"github.com/gobackoff/backoff"
)

// SIPTimerA retransmits a SIP INVITE over UDP: t1, 2*t1, 4*t1, without a cap
// and without jitter, until timer B ends the transaction 64*t1 after the first
// send. With t1 of 500 ms, which 0 means, that is 7 sends in 31.5 s; the next
// wait of 32 s would pass the 32 s.
//
// The operation sends, and returns an error. Any provisional response ends the
// retransmissions: cancel the context. Timer B itself, which still listens
// after the last send, belongs to the transaction.
//
// Source: RFC 3261, 17.1.1.2. Popular descriptions stop the doubling at T2 (4
// s) for every request; the RFC does so only for [SIPTimerE].
func SIPTimerA(t1 time.Duration) backoff.Policy {
	return sip(t1, -1)
}

// SIPTimerE retransmits a SIP request other than INVITE over UDP: min(t2, t1 *
// 2^n), n from 0, and then t2, until timer F ends the transaction 64*t1 after
// the first send. With 500 ms and 4 s, which 0 means, that is 11 sends in 31.5
// s. t2 must not be below t1.
//
// After a provisional response the RFC resets the timer to t2 each time: go on
// with a copy whose Schedule is backoff.Constant(t2).
//
// Timer G, for a server's final response to an INVITE, has the same numbers, with
// timer H for timer F.
//
// Source: RFC 3261, 17.1.2.2 and 17.2.1.
func SIPTimerE(t1, t2 time.Duration) backoff.Policy {
	return sip(t1, cmp.Or(t2, 4*time.Second))
}

// sip returns the policy of a timer that starts at t1 and doubles up to most.
func sip(t1, most time.Duration) backoff.Policy {
	t1 = cmp.Or(t1, 500*time.Millisecond)
	return within(64*t1, exponential(-1, t1, most, 2, backoff.NoJitter))
}
