package page

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics/internal/snapshot"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errortype"
)

// errorSlots is how many kinds of errors are counted for an operation; the last
// slot counts all others.
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
	began atomic.Int64 // since when it occurs, without a break as long as the page shows, by history.elapsed
	last  atomic.Int64
}

const (
	noError     = "no error"     // of an event without one
	otherErrors = "other errors" // in the last slot
)

// errorsOf returns the kinds of errors of an operation.
func (h *history) errorsOf(l snapshot.Labels) *errorKinds {
	kinds, ok := h.kinds.Load(l)
	if !ok {
		kinds, _ = h.kinds.LoadOrStore(l, new(errorKinds))
	}
	return kinds.(*errorKinds)
}

// Fail implements [snapshot.Page]. It counts the error of an event.
func (h *history) Fail(l snapshot.Labels, e backoff.Event) {
	typ := noError
	if e.Err != nil {
		typ = snapshot.Label(errortype.Of(e.Err))
	}
	k, now := h.errorsOf(l), int64(h.elapsed())
	slot := &k.slots[k.slot(e.Class, typ, now)]
	slot.kind.Load().seen(now)
	slot.count.Add(1)
}

// counts returns how many errors there were, by their slot.
func (k *errorKinds) counts() (counts [errorSlots]uint32) {
	for i := range counts {
		counts[i] = uint32(k.slots[i].count.Load())
	}
	return counts
}

// newErrorKind returns a kind that occurs for the first time.
func newErrorKind(class backoff.Class, typ string, now int64) *errorKind {
	kind := &errorKind{class: class, typ: typ}
	kind.began.Store(now)
	kind.last.Store(now)
	return kind
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
			k.slots[i].kind.Store(newErrorKind(class, typ, now))
			return i
		}
	}
	if k.slots[rest].kind.Load() == nil {
		k.slots[rest].kind.Store(newErrorKind(0, otherErrors, now))
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

// errorRow is how many attempts failed with a kind of error. The moments are
// those of its first occurrence, after a break as long as the page shows, and
// of its last one.
type errorRow struct {
	Type  string `json:"type"`
	Class string `json:"class,omitempty"`
	Count uint64 `json:"count"`
	Since int64  `json:"since,omitempty"`
	Last  int64  `json:"last,omitempty"`
}

// errorRows returns the kinds of errors of an operation that occurred, the most frequent first.
func (h *history) errorRows(l snapshot.Labels, counts [errorSlots]uint32) []errorRow {
	const most = 5
	k, now, elapsed := h.errorsOf(l), clock.Now(), h.elapsed()
	unixMilli := func(at int64) int64 { return now.Add(time.Duration(at) - elapsed).UnixMilli() }
	rest := errorRow{Type: otherErrors}
	rows := []errorRow{}
	for i, n := range counts {
		kind := k.slots[i].kind.Load()
		switch {
		case n == 0:
		case kind.typ == otherErrors:
			rest.Count += uint64(n)
		default:
			rows = append(rows, errorRow{Type: typeText(kind.typ), Class: kind.class.String(), Count: uint64(n),
				Since: unixMilli(kind.began.Load()), Last: unixMilli(kind.last.Load())})
		}
	}
	slices.SortStableFunc(rows, func(a, b errorRow) int { return int(b.Count) - int(a.Count) })
	for _, r := range rows[min(most, len(rows)):] {
		rest.Count += r.Count
	}
	if rows = rows[:min(most, len(rows))]; rest.Count > 0 {
		rows = append(rows, rest)
	}
	return rows
}

// typeText returns the type of an error, and for a status what it means.
func typeText(typ string) string {
	if code, err := strconv.Atoi(typ); err == nil && len(typ) == 3 {
		return strings.TrimSpace(typ + " " + http.StatusText(code))
	}
	return typ
}
