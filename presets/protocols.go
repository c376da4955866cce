package presets

import (
	"cmp"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/shape"
)

// ethernetSlot is the slot time at 10 Mb/s: 512 bit times.
const ethernetSlot = 51200 * time.Nanosecond

// Ethernet is the truncated binary exponential backoff of CSMA/CD: after the
// c-th collision it waits k slots, where k is drawn from the integers 0 to
// 2^min(c,10) - 1. The 16th failed attempt is the last, so there are 15 waits.
//
// From the 10th collision on, k is at most 1023. The "1024 slots" of some texts
// are the number of choices, the "1023 slot times" of others the longest wait.
//
// A slot of 0 means that of 10 Mb/s, 51.2 us; 100 Mb/s has 5.12 us, 1 Gb/s
// 4.096 us.
//
// Source: IEEE 802.3, 4.2.3.2.5.
func Ethernet(slot time.Duration) backoff.Policy {
	slot = cmp.Or(slot, ethernetSlot)
	p := ExponentialSlots(2, slot)
	p.MaxAttempts = 16
	p.Schedule = shape.Truncated(p.Schedule, 1023*slot)
	return p
}

// ExponentialSlots is exponential backoff in its general form: after the c-th
// failure it waits k slots, where k is drawn from the integers 0 to base^c - 1,
// so (base^c - 1)/2 on average. The window is not truncated: with the slots of
// Ethernet it reaches the longest possible duration at the 48th failure, and
// stays there.
//
// A base of 0 means 2, which is Ethernet's backoff without its limits. A slot
// of 0 means that of [Ethernet]. Validate refuses a base below 1 and a negative
// slot.
//
// Source: Wikipedia, "Exponential backoff".
func ExponentialSlots(base float64, slot time.Duration) backoff.Policy {
	base, slot = cmp.Or(base, 2), cmp.Or(slot, ethernetSlot)
	return policy(0, powersLessOne(base, base, slot), shape.Slotted(slot))
}

// CSMACA is the contention window of wireless networks: a wait of k slots,
// where k is drawn from the integers 0 to CW. CW begins at cwMin, goes from w
// to 2w+1 with every failure, and stays at cwMax. 0 means the numbers of OFDM:
// 9 us, 15, 1023. DSSS has 20 us and 31.
//
// A station that finds the medium busy draws before its first transmission too.
// A policy waits only before retries: take Delay(1) for that first wait, and
// Delay(k+1) for the k-th retry.
//
// Source: IEEE 802.11, the distributed coordination function, as described in
// secondary literature.
func CSMACA(slot time.Duration, cwMin, cwMax int) backoff.Policy {
	slot = cmp.Or(slot, 9*time.Microsecond)
	cwMin, cwMax = cmp.Or(cwMin, 15), cmp.Or(cwMax, 1023)
	window := powersLessOne(float64(cwMin+1), 2, slot)
	return policy(0, shape.Truncated(window, time.Duration(cwMax)*slot), shape.Slotted(slot))
}

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
func SIPTimerA(t1 time.Duration) backoff.Policy { return sip(t1, -1) }

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
func SIPTimerE(t1, t2 time.Duration) backoff.Policy { return sip(t1, cmp.Or(t2, 4*time.Second)) }

// sip returns the policy of a timer that starts at t1 and doubles up to most.
func sip(t1, most time.Duration) backoff.Policy {
	t1 = cmp.Or(t1, 500*time.Millisecond)
	return within(64*t1, exponential(-1, t1, most, doubling, backoff.NoJitter))
}
