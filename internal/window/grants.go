package window

import (
	"math"
	"sync/atomic"
	"time"
)

// Grants is a [Ring] whose Bad events are granted. One grant is given under the lock of
// the owner, together with more of them that are then taken without it, as long as the
// window does not slide on. The zero value is ready; it must not be copied.
type Grants struct {
	since   time.Time     // written once, before until is
	width   time.Duration // of a bucket; too
	until   atomic.Int64  // the end of the current bucket, from since; 0 before the first Give
	current atomic.Int64  // its number

	Ring // between what is mostly read and what is mostly written

	// How many may be taken, and below that the number of the last one that was.
	word atomic.Uint64
	done [grantWords]atomic.Uint64 // a bit for each of the last numbers
}

// A Grant is a note of one event: its number and the bucket it was counted in, and above
// these two bits, of which one is set and the other is the owner's. It is never 0.
type Grant uint64

const (
	// Own is the bit of a Grant that is its owner's to use.
	Own Grant = 1 << 62

	isGrant    = 1 << 63
	numberBits = 32
	bucketBits = 30
	bucketMask = 1<<bucketBits - 1
	grantWords = 16

	// MaxGrants is how many are given at once.
	MaxGrants = 256
	// KnownGrants is for how many numbers a Grant is known: those that there are
	// bits for, less those given at once, which have forgotten others, and a word.
	KnownGrants = 64*grantWords - MaxGrants - 64
)

func grant(word uint64, bucket int64) Grant {
	return Grant(isGrant | uint64(bucket&bucketMask)<<numberBits | uint64(uint32(word)))
}

// Take takes one of the grants that are left for the bucket that now is in. If the window
// slides on meanwhile, it may be one of the next bucket. It takes no lock.
func (g *Grants) Take(now time.Time) (Grant, bool) {
	until := g.until.Load()
	if until == 0 || uint64(until-1)-uint64(now.Sub(g.since)) >= uint64(g.width) {
		return 0, false
	}
	bucket := g.current.Load()
	for {
		word := g.word.Load()
		if word>>numberBits == 0 {
			return 0, false
		}
		next := word - 1<<numberBits + 1
		if g.word.CompareAndSwap(word, next) {
			return grant(next, bucket), true
		}
	}
}

// Advance takes back the grants that are left, and then is Ring.Advance.
func (g *Grants) Advance(now time.Time, window time.Duration, total uint64) {
	left := g.word.And(math.MaxUint32) >> numberBits
	bad := &g.bucket(0)[Bad]
	*bad -= min(*bad, uint32(left))
	g.Ring.Advance(now, window, total)
}

// Give counts and grants n, from 1 to MaxGrants, and returns the first of them. It is
// called after Advance, with the same window.
func (g *Grants) Give(n uint64, window time.Duration) Grant {
	if g.width == 0 {
		g.since, g.width = g.started, width(window)
	}
	g.current.Store(g.now)
	g.until.Store(int64(g.started.Sub(g.since) + time.Duration(g.now+1)*g.width))
	g.Add(Bad, n)
	return g.next(n)
}

// Spare returns a Grant that does not count. It is called after Advance.
func (g *Grants) Spare() Grant { return g.next(1) }

// next numbers n grants, makes room for their bits, and leaves all but the first.
func (g *Grants) next(n uint64) Grant {
	first := (g.word.Load() + 1) % (1 << 31)
	for w := (first + 63) / 64; w <= (first+n-1)/64; w++ {
		g.done[w%grantWords].Store(0)
	}
	g.word.Store((n-1)<<numberBits | first)
	return grant(first, g.now)
}

// Done reports whether this is the first time that it is told of this Grant. Of one that
// is no longer known, it cannot tell. It takes no lock.
func (g *Grants) Done(of Grant) (first, known bool) {
	number := uint32(of)
	if (uint32(g.word.Load())-number)%(1<<31) >= KnownGrants {
		return false, false
	}
	bit := uint64(1) << (number % 64)
	return g.done[number/64%grantWords].Or(bit)&bit == 0, true
}

// GiveBack takes a grant from the bucket it was counted in.
func (g *Grants) GiveBack(of Grant) {
	age := (g.now - int64(of>>numberBits)) & bucketMask
	g.Remove(Bad, g.now-age)
}
