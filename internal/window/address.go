package window

import (
	"math/rand/v2"
	"sync/atomic"
	"unsafe"
)

// An address says where a goroutine has its stack, in steps of 2 KiB. It finds
// the goroutine a cell among several. Two goroutines that run at the same time
// have different addresses, and usually different cells. If they meet in one
// cell, either of them moves, so that they do not meet again and again.
//
// To ask for the processor instead, by a sync.Pool, costs more than to add.
type address uint32

// shuffles change which cells the addresses have. There is one for every 256th
// address, so that few others move along.
var shuffles [256]atomic.Uint32

// golden is 2^32 divided by the golden ratio. Its multiples are far apart.
const golden = 0x9e3779b1

// here returns the address of the goroutine that calls it.
func here() address {
	var b byte
	return address(uintptr(unsafe.Pointer(&b)) >> 11)
}

func (a address) shuffle() *atomic.Uint32 { return &shuffles[a*golden>>24] }

// cell returns the number of the cell among n.
func (a address) cell(n int) int {
	hash := uint32(a) * (golden ^ a.shuffle().Load())
	return int(uint64(hash) * uint64(n) >> 32)
}

// move gives the address other cells. They may be the old ones by chance.
func (a address) move() { a.shuffle().Store(rand.Uint32() &^ 1) } // even, as the factor must stay odd
