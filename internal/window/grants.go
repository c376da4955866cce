package window

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// Grants is a [Ring] whose Bad events are granted. One grant is given under the lock of
// the owner, together with more of them that are then taken without it, as long as the
// window does not slide on. Those are in one place until two processors meet there, and
// then in several. The zero value is ready; it must not be copied.
type Grants struct {
	since   time.Time     // written once, before until is
	width   time.Duration // of a bucket; too
	until   atomic.Int64  // the end of the current bucket, from since; 0 before the first Give
	current atomic.Int64  // its number
	stores  atomic.Pointer[[]padded]

	Ring // between what is mostly read and what is mostly written

	alone store
}

// A store has some of the grants. The lock of the owner guards the giving, nothing the
// taking.
type store struct {
	word atomic.Uint64 // how many are left, and below that the number of the last one taken
	done [storeWords]atomic.Uint64
}

type padded struct {
	store
	_ [56]byte // to the end of the cache line
}

// A Grant is a note of one event: its number, its store, and the bucket it was counted
// in. Of the two bits above these, one is set and the other is the owner's. It is never 0.
type Grant uint64

const (
	// Own is the bit of a Grant that is its owner's to use.
	Own Grant = 1 << 62

	isGrant    = 1 << 63
	numberBits = 32
	placeBits  = 8
	bucketBits = 22

	storeWords = 16
	maxGrants  = 256 // of a store, at once
	// For so many numbers a Grant is known: those that there are bits for, less
	// those given at once, which have forgotten others, and a word.
	knownGrants = 64*storeWords - maxGrants - 64
)

func grant(number uint64, place int, bucket int64) Grant {
	low := uint64(bucket)<<placeBits | uint64(place)
	return Grant(isGrant | low%(1<<(placeBits+bucketBits))<<numberBits | uint64(uint32(number)))
}

// Place returns where the caller should take and be given. It stays good.
func (g *Grants) Place() int {
	if stores := g.stores.Load(); stores != nil {
		return 1 + here(len(*stores))
	}
	return 0
}

func (g *Grants) at(place int) *store {
	if place == 0 {
		return &g.alone
	}
	return &(*g.stores.Load())[place-1].store
}

// Take takes one of the grants that are left at a place for the bucket that now is in. If
// the window slides on meanwhile, it may be one of the next bucket. It takes no lock.
func (g *Grants) Take(place int, now time.Time) (Grant, bool) {
	until := g.until.Load()
	if until == 0 || uint64(until-1)-uint64(now.Sub(g.since)) >= uint64(g.width) {
		return 0, false
	}
	bucket := g.current.Load()
	for s := g.at(place); ; g.split() {
		word := s.word.Load()
		if word>>numberBits == 0 {
			return 0, false
		}
		next := word - 1<<numberBits + 1
		if s.word.CompareAndSwap(word, next) {
			return grant(next, place, bucket), true
		}
	}
}

// here returns a number below n that goroutines which run at once differ in, as a rule: it
// goes by where their stacks are. To know the processor, as a [Counter] does, costs ten
// times as much: too much for a grant, though not for a success, of which there are more.
func here(n int) int {
	var b byte
	address := uintptr(unsafe.Pointer(&b)) >> 11
	return int(uint64(uint32(address)*0x9e3779b1) * uint64(n) >> 32)
}

func (g *Grants) split() {
	if g.stores.Load() == nil {
		stores := make([]padded, min(4*runtime.GOMAXPROCS(0), 1<<placeBits-1))
		g.stores.CompareAndSwap(nil, &stores)
	}
}

// Advance is Ring.Advance. Where the window slides on, the grants that are left are taken
// back from the bucket they were counted in.
func (g *Grants) Advance(now time.Time, window time.Duration, total uint64) {
	before := g.now
	g.Ring.Advance(now, window, total)
	if g.now != before {
		g.reclaim(before)
	}
}

// Reclaim takes back the grants that are left. Before it, they count as used.
func (g *Grants) Reclaim() { g.reclaim(g.now) }

func (g *Grants) reclaim(bucket int64) {
	left := g.alone.empty()
	if stores := g.stores.Load(); stores != nil {
		for i := range *stores {
			left += (*stores)[i].empty()
		}
	}
	if back := g.now - bucket; back < int64(len(g.buckets)) {
		bad := &g.bucket(back)[Bad]
		*bad -= uint32(min(uint64(*bad), left))
	}
}

// Give counts at least one and up to n grants, and returns the first; the others are left
// at the place, where Take found none. It is called after Advance, with the same window.
func (g *Grants) Give(place int, n uint64, window time.Duration) Grant {
	if g.width == 0 {
		g.since, g.width = g.started, width(window)
	}
	g.current.Store(g.now)
	g.until.Store(int64(g.started.Sub(g.since) + time.Duration(g.now+1)*g.width))
	if place > 0 {
		n = (n + 3) / 4 // and some for the others
	}
	left := g.at(place).empty() // none, unless the clock went back
	n = max(min(n, maxGrants), left)
	g.Add(Bad, n-left)
	return grant(g.at(place).put(n, 1), place, g.now)
}

// Spare returns a Grant that does not count. It is called after Reclaim.
func (g *Grants) Spare() Grant { return grant(g.alone.put(1, 1), 0, g.now) }

// Done reports whether this is the first time that it is told of this Grant. Of one that
// is no longer known, it cannot tell. It takes no lock.
func (g *Grants) Done(of Grant) (first, known bool) {
	place := int(of >> numberBits % (1 << placeBits))
	if stores := g.stores.Load(); place > 0 && (stores == nil || place > len(*stores)) {
		return false, false // somebody else's
	}
	return g.at(place).finish(uint32(of))
}

// GiveBack takes a grant from the bucket it was counted in.
func (g *Grants) GiveBack(of Grant) {
	age := (g.now - int64(of>>(numberBits+placeBits))) & (1<<bucketBits - 1)
	g.Remove(Bad, g.now-age)
}

// empty takes out what is left, and returns how much that was.
func (s *store) empty() uint64 {
	if s.word.Load()>>numberBits == 0 {
		return 0
	}
	return s.word.And(math.MaxUint32) >> numberBits
}

// put makes n grants of an empty store's, and room for their bits. The first so many of
// them are taken; it returns the number of the last one that is.
func (s *store) put(n, taken uint64) (number uint64) {
	last := s.word.Load() % (1 << 31)
	for w := last/64 + 1; w <= (last+n)/64; w++ {
		s.done[w%storeWords].Store(0)
	}
	s.word.Store((n-taken)<<numberBits | (last + taken))
	return last + taken
}

// finish sets the bit of a grant. Should the store get to where another has the same bit
// between the look at the number and that, the other one counts as done, too.
func (s *store) finish(number uint32) (first, known bool) {
	if (uint32(s.word.Load())-number)%(1<<31) >= knownGrants {
		return false, false
	}
	bit := uint64(1) << (number % 64)
	return s.done[number/64%storeWords].Or(bit)&bit == 0, true
}
