package backoffmetrics

import (
	"sync"
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errortype"
)

// errorSlots is how many kinds of errors an operation tells apart; the last slot
// is for all others.
const errorSlots = 8

// errorKinds counts errors by their class and type. Once there are too many
// kinds, a new one takes the slot of one that did not occur for as long as the
// page shows.
type errorKinds struct {
	mu    sync.Mutex // for a new kind
	slots [errorSlots]struct {
		count atomic.Uint64 // also of the kinds that had the slot before
		kind  atomic.Pointer[errorKind]
	}
}

// errorKind is a kind of error. Type is that of package errortype.
type errorKind struct {
	class backoff.Class
	typ   string
	began atomic.Int64 // ns of the Unix time since which it occurs, without a break as long as the page shows
	last  atomic.Int64
}

const (
	noError     = "no error"     // of an event without one
	otherErrors = "other errors" // in the last slot
)

// add counts the error of an event.
func (k *errorKinds) add(e *backoff.Event) {
	typ := noError
	if e.Err != nil {
		typ = labelOf(errortype.Of(e.Err))
	}
	now := clock.Now().UnixNano()
	i := k.slot(e.Class, typ, now)
	slot := &k.slots[i]
	slot.kind.Load().seen(now)
	slot.count.Add(1)
}

// seen notes when an error occurred.
func (k *errorKind) seen(now int64) {
	if before := k.last.Swap(now); now-before > int64(span) {
		k.began.Store(now)
	}
}

// slot returns the slot of a kind.
func (k *errorKinds) slot(class backoff.Class, typ string, now int64) int {
	if i := k.find(class, typ); i >= 0 {
		return i
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := k.find(class, typ); i >= 0 {
		return i
	}
	const rest = errorSlots - 1
	for i := range k.slots[:rest] {
		kind := k.slots[i].kind.Load()
		if kind == nil || now-kind.last.Load() > int64(2*span) {
			k.slots[i].kind.Store(&errorKind{class: class, typ: typ})
			return i
		}
	}
	if k.slots[rest].kind.Load() == nil {
		k.slots[rest].kind.Store(&errorKind{typ: otherErrors})
	}
	return rest
}

// find returns the slot that a kind has, or -1.
func (k *errorKinds) find(class backoff.Class, typ string) int {
	for i := range k.slots {
		if kind := k.slots[i].kind.Load(); kind != nil && kind.class == class && kind.typ == typ {
			return i
		}
	}
	return -1
}
