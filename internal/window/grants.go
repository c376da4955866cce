package window

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// Grants is a [Ring] whose Bad and Other events are granted one by one.
//
// The owner gives several grants at once under its lock. Callers then take them
// one by one without the lock, until the window slides on. All grants are in
// one store until two processors meet there; after that they are in several
// stores. The zero value is ready for use. Grants must not be copied.
type Grants struct {
	since   time.Time     // written once, before until
	width   time.Duration // of a bucket; written once, before until
	until   atomic.Int64  // end of the current bucket, after since; 0 before Give
	current atomic.Int64  // the number of the current bucket
	stores  atomic.Pointer[[]padded]

	Ring // between the fields that are mostly read and those mostly written

	single store
}

// store holds some of the grants. The lock of the owner guards giving, and no
// lock guards taking.
type store struct {
	word atomic.Uint64 // grants left, and below that the number of the last taken
	done [storeWords]atomic.Uint64
}

// padded is a store that fills cache lines of its own.
type padded struct {
	store
	_ [56]byte // to the end of the cache line
}

// A Grant is the note of one event: its number, its store, and the bucket it
// was counted in. Of the three bits above them, one is always set, so that a
// Grant is never 0. The others are Own and Led.
type Grant uint64

const (
	// Own is the bit of a Grant of Spare.
	Own Grant = 1 << 62
	// Led is a bit that the owner may use.
	Led Grant = 1 << 61

	isGrant    = 1 << 63
	numberBits = 32
	placeBits  = 8
	bucketBits = 21

	storeWords = 16
	maxGrants  = 256 // of a store, at once
	// knownGrants is how many numbers back a Grant is known: as many as there
	// are bits, less the grants of one Give, whose bits replace older ones, and
	// less one word.
	knownGrants = 64*storeWords - maxGrants - 64
)

// A Place is where a goroutine takes grants and is given them: the number of a
// store, 0 for the single one, and above that the address of the goroutine. A
// Place stays valid.
type Place uint64

// store returns the number of the store.
func (p Place) store() int { return int(p % (1 << placeBits)) }

// grant packs the parts of a Grant.
func grant(number uint64, place Place, bucket int64) Grant {
	low := uint64(bucket)<<placeBits | uint64(place.store())
	return Grant(isGrant | low%(1<<(placeBits+bucketBits))<<numberBits | uint64(uint32(number)))
}

// Place returns the place of the goroutine that calls it.
func (g *Grants) Place() Place {
	a, number := here(), 0
	if stores := g.stores.Load(); stores != nil {
		number = 1 + a.cell(len(*stores))
	}
	return Place(a)<<placeBits | Place(number)
}

// at returns the store at a place.
func (g *Grants) at(place Place) *store {
	if number := place.store(); number > 0 {
		return &(*g.stores.Load())[number-1].store
	}
	return &g.single
}

// Take takes a grant that is left at a place for the bucket of now. If the
// window slides on meanwhile, the grant may be one of the next bucket. Take
// takes no lock.
func (g *Grants) Take(place Place, now time.Time) (Grant, bool) {
	until := g.until.Load()
	if until == 0 || uint64(until-1)-uint64(now.Sub(g.since)) >= uint64(g.width) {
		return 0, false
	}
	bucket := g.current.Load()
	for s := g.at(place); ; g.part(place) {
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

// part keeps two processors that have met at a place from meeting again. It
// makes the stores if there are none, and gives the goroutine another one for
// the next time if there are.
func (g *Grants) part(place Place) {
	if g.stores.Load() != nil {
		address(place >> placeBits).move()
		return
	}
	stores := make([]padded, min(4*runtime.GOMAXPROCS(0), 1<<placeBits-1))
	g.stores.CompareAndSwap(nil, &stores)
}

// Advance is Ring.Advance. If the window slides on, it takes back the grants
// that are left from the bucket they were counted in.
func (g *Grants) Advance(now time.Time, window time.Duration, total uint64) {
	before := g.now
	g.Ring.Advance(now, window, total)
	if g.now != before {
		g.reclaim(before)
	}
}

// Reclaim takes back the grants that are left. Until then they count as used.
func (g *Grants) Reclaim() { g.reclaim(g.now) }

// reclaim takes back the grants that are left of a bucket.
func (g *Grants) reclaim(bucket int64) {
	left := g.single.empty()
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

// Give counts at least one and up to n grants, and returns the first one. The
// others are left at the place, at which Take found none. The caller calls
// Advance first, with the same window.
func (g *Grants) Give(place Place, n uint64, window time.Duration) Grant {
	if g.width == 0 {
		g.since, g.width = g.started, width(window)
	}
	g.current.Store(g.now)
	g.until.Store(int64(g.started.Sub(g.since) + time.Duration(g.now+1)*g.width))
	if place.store() > 0 {
		n = (n + 3) / 4 // leave some for the other places
	}
	left := g.at(place).empty() // 0 unless the clock went back
	n = max(min(n, maxGrants), left)
	g.Add(Bad, n-left)
	return grant(g.at(place).put(n, 1), place, g.now)
}

// Spare returns a Grant that counts as Other. The caller calls Reclaim first.
func (g *Grants) Spare() Grant {
	g.Add(Other, 1)
	return grant(g.single.put(1, 1), 0, g.now) | Own
}

// Done notes that a Grant is done. It reports whether this is the first time,
// and whether the Grant is still known; of an unknown one it cannot tell. It
// takes no lock.
func (g *Grants) Done(of Grant) (first, known bool) {
	place := Place(of >> numberBits % (1 << placeBits))
	if stores := g.stores.Load(); place > 0 && (stores == nil || place.store() > len(*stores)) {
		return false, false // a Grant of another owner
	}
	return g.at(place).finish(uint32(of))
}

// GiveBack takes back a grant from the bucket it was counted in.
func (g *Grants) GiveBack(of Grant) {
	kind := Bad
	if of&Own != 0 {
		kind = Other
	}
	age := (g.now - int64(of>>(numberBits+placeBits))) & (1<<bucketBits - 1)
	g.Remove(kind, g.now-age)
}

// empty takes out the grants that are left, and returns their number.
func (s *store) empty() uint64 {
	if s.word.Load()>>numberBits == 0 {
		return 0
	}
	return s.word.And(math.MaxUint32) >> numberBits
}

// put puts n grants into an empty store and clears their bits. The first taken
// of them count as taken. It returns the number of the last one of those.
func (s *store) put(n, taken uint64) (number uint64) {
	last := s.word.Load() % (1 << 31)
	for w := last/64 + 1; w <= (last+n)/64; w++ {
		s.done[w%storeWords].Store(0)
	}
	s.word.Store((n-taken)<<numberBits | (last + taken))
	return last + taken
}

// finish sets the bit of a grant. If the store reaches another grant with the
// same bit after finish has looked at the number, that grant counts as done,
// too.
func (s *store) finish(number uint32) (first, known bool) {
	if (uint32(s.word.Load())-number)%(1<<31) >= knownGrants {
		return false, false
	}
	bit := uint64(1) << (number % 64)
	return s.done[number/64%storeWords].Or(bit)&bit == 0, true
}
