package presets

import (
	"cmp"
	"time"

	"github.com/gobackoff/backoff"
)

// SIPTimerA retransmits a SIP INVITE over UDP: t1, 2*t1, 4*t1, without a cap and
// without jitter, until timer B ends the transaction 64*t1 after the first send. With
// t1 of 500 ms, which 0 means, that is 7 sends in 31.5 s; the next wait of
// 32 s would pass the 32 s.
//
// The operation is to send and return an error. Whatever provisional response arrives
// ends the retransmissions: cancel the context. Timer B itself, which still listens
// after the last send, is the transaction's.
//
// Source: RFC 3261, 17.1.1.2. Popular descriptions stop the doubling at T2 (4 s) for
// every request; the RFC does so for [SIPTimerE] and [SIPTimerG] only.
func SIPTimerA(t1 time.Duration) backoff.Policy {
	return sip(t1, -1)
}

// SIPTimerE retransmits a SIP request other than INVITE over UDP: min(t2, t1 * 2^n), n
// from 0, then t2 for as long as timer F lets it, 64*t1 after the first send. With
// 500 ms and 4 s, which 0 means, that is 11 sends in 31.5 s. t2 must not be
// below t1.
//
// After a provisional response the RFC resets the timer to t2 each time: go on with
// a copy whose Schedule is backoff.Constant(t2).
//
// Source: RFC 3261, 17.1.2.2.
func SIPTimerE(t1, t2 time.Duration) backoff.Policy {
	return sip(t1, cmp.Or(t2, 4*time.Second))
}

// SIPTimerG retransmits a SIP server's final response to an INVITE, other than a 2xx,
// over unreliable transports until the ACK: the numbers of [SIPTimerE], with timer H
// for F. A 2xx is retransmitted in the same way by the layer above (13.3.1.4).
//
// Source: RFC 3261, 17.2.1.
func SIPTimerG(t1, t2 time.Duration) backoff.Policy {
	return SIPTimerE(t1, t2)
}

func sip(t1, most time.Duration) backoff.Policy {
	t1 = cmp.Or(t1, 500*time.Millisecond)
	return backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  64 * t1,
		Schedule:    backoff.Exponential{Initial: t1, Max: most},
		Jitter:      backoff.NoJitter,
	}
}
