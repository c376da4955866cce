package idempotency

import (
	"container/heap"
	"container/list"
)

// callerDigits is how many digits of a key stand for its caller.
const callerDigits = 32

// storeKey returns the key of a caller in the store.
func storeKey(caller, key string) string {
	return digest(caller)[:callerDigits] + digest(caller, key)[:digestLength-callerDigits]
}

// callerOf returns the part of a key that stands for its caller. Keys of
// another form have one caller.
func callerOf(key string) string {
	if len(key) != digestLength {
		return ""
	}
	return key[:callerDigits]
}

// A share is what a caller has in a MemoryStore.
type share struct {
	caller string
	keys   list.List // of *memory, the longest untouched first
	bodies list.List // of *memory, those whose record takes bytes
	bytes  int64     // of all records
	places [2]int    // in the rankings by keys and by bytes
}

// The measures by which shares are ranked.
const (
	byKeys = iota
	byBytes
)

// size returns how large a share is by a measure. nil has nothing.
func (s *share) size(measure int) int64 {
	switch {
	case s == nil:
		return 0
	case measure == byBytes:
		return s.bytes
	}
	return int64(s.keys.Len())
}

// A ranking is a heap of shares, with the largest at the top.
type ranking struct {
	shares  []*share
	measure int
}

// largest returns the largest share of a store that has any.
func (r *ranking) largest() *share { return r.shares[0] }

// update restores the order after the size of a share has changed.
func (r *ranking) update(s *share) { heap.Fix(r, s.places[r.measure]) }

// Len implements [heap.Interface].
func (r *ranking) Len() int { return len(r.shares) }

// Less implements [heap.Interface].
func (r *ranking) Less(i, j int) bool {
	return r.shares[i].size(r.measure) > r.shares[j].size(r.measure)
}

// Swap implements [heap.Interface].
func (r *ranking) Swap(i, j int) {
	r.shares[i], r.shares[j] = r.shares[j], r.shares[i]
	r.shares[i].places[r.measure], r.shares[j].places[r.measure] = i, j
}

// Push implements [heap.Interface].
func (r *ranking) Push(x any) {
	s := x.(*share)
	s.places[r.measure] = len(r.shares)
	r.shares = append(r.shares, s)
}

// Pop implements [heap.Interface].
func (r *ranking) Pop() any {
	last := len(r.shares) - 1
	s := r.shares[last]
	r.shares[last] = nil
	r.shares = r.shares[:last]
	return s
}
