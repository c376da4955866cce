package window

import "time"

// Grants is a [Ring] whose Bad and Other events are granted one by one, each at
// a price. The lock of its owner guards it. The zero value is ready for use.
type Grants struct {
	Ring
	won  Slide             // the price of the grants that succeeded, as Bad
	last uint32            // the number of the last grant
	done [doneWords]uint64 // a bit for each of the last ones
}

// A Grant is the note of one event: its number, the bucket it was counted in,
// and its price. Of the bits above, one is always set, so that a Grant is never
// 0. The others are Own, Led and Fruitless.
type Grant uint64

const (
	// Own is the bit of a Grant of Spare.
	Own Grant = 1 << 62
	// Led and Fruitless are bits that the owner may use.
	Led       Grant = 1 << 61
	Fruitless Grant = 1 << 60

	isGrant    = 1 << 63
	numberBits = 32
	bucketBits = 21
	priceBits  = 4

	doneWords = 16
	// knownGrants is how many numbers back a Grant is known.
	knownGrants = 64 * (doneWords - 1)
)

// Price returns what the grant costs.
func (g Grant) Price() uint64 { return uint64(g) >> (numberBits + bucketBits) % (1 << priceBits) }

// Advance is Ring.Advance.
func (g *Grants) Advance(now time.Time, window time.Duration, total uint64) {
	g.Ring.Advance(now, window, total)
	g.won.Advance(time.Duration(g.now)*width(window), window, 0)
}

// Give counts a grant of a price from 1 to 15.
func (g *Grants) Give(price uint64) Grant {
	g.Add(Bad, price)
	return g.next(price)
}

// Spare returns a Grant that counts as one Other.
func (g *Grants) Spare(price uint64) Grant {
	g.Add(Other, 1)
	return g.next(price) | Own
}

// next returns a grant with the next number.
func (g *Grants) next(price uint64) Grant {
	g.last++
	if g.last%64 == 0 {
		g.done[g.last/64%doneWords] = 0
	}
	bucket := uint64(g.now) % (1 << bucketBits)
	return Grant(isGrant | price<<(numberBits+bucketBits) | bucket<<numberBits | uint64(g.last))
}

// Done notes that a Grant is done. It reports whether this is the first time,
// and whether the Grant is still known; of an unknown one it cannot tell.
func (g *Grants) Done(of Grant) (first, known bool) {
	number := uint32(of)
	if g.last-number >= knownGrants {
		return false, false
	}
	word, bit := &g.done[number/64%doneWords], uint64(1)<<(number%64)
	first = *word&bit == 0
	*word |= bit
	return first, true
}

// Win notes that what was granted succeeded.
func (g *Grants) Win(of Grant) { g.won.Add(Bad, of.Price()) }

// Won returns the price of the grants that succeeded within the window.
func (g *Grants) Won() uint64 { return g.won.Least(Bad) }

// GiveBack takes back a grant from the bucket it was counted in.
func (g *Grants) GiveBack(of Grant) {
	age := (g.now - int64(of>>numberBits)) & (1<<bucketBits - 1)
	if of&Own != 0 {
		g.Remove(Other, 1, g.now-age)
	} else {
		g.Remove(Bad, of.Price(), g.now-age)
	}
}
