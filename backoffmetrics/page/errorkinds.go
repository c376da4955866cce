package page

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errortype"
	"github.com/gobackoff/backoff/internal/snapshot"
)

const (
	errorSlots = 8              // how many kinds of errors are counted for an operation
	others     = errorSlots - 1 // the slot that counts all that have none
)

// errorKinds counts errors by their class and type. Once there are too many
// kinds, a new one takes the slot of one that did not occur for as long as the
// page shows.
type errorKinds struct {
	mu    sync.Mutex
	slots [errorSlots]errorKind
}

// errorKind is a kind of error. Its type is that of package errortype, and "" if
// the slot is free. The times are those of history.elapsed.
type errorKind struct {
	class       backoff.Class
	typ         string
	count       uint32        // also of the kinds that had the slot before
	began, last time.Duration // since when it occurs, without a break as long as the page shows
}

const (
	noError     = "no error"     // of an event without one
	otherErrors = "other errors" // of the slot of all others
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
	k, now := h.errorsOf(l), h.elapsed()
	k.mu.Lock()
	defer k.mu.Unlock()
	slot := k.slot(e.Class, typ, now)
	if now-slot.last > span {
		slot.began = now
	}
	slot.last = now
	slot.count++
}

// slot returns the slot of a kind.
func (k *errorKinds) slot(class backoff.Class, typ string, now time.Duration) *errorKind {
	for i := range k.slots[:others] {
		if s := &k.slots[i]; s.class == class && s.typ == typ {
			return s
		}
	}
	for i := range k.slots[:others] {
		if s := &k.slots[i]; s.typ == "" || now-s.last > 2*span {
			s.class, s.typ, s.began, s.last = class, typ, now, now
			return s
		}
	}
	return &k.slots[others]
}

// read returns a copy of the slots.
func (k *errorKinds) read() [errorSlots]errorKind {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.slots
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
	now, elapsed := clock.Now(), h.elapsed()
	unixMilli := func(at time.Duration) int64 { return now.Add(at - elapsed).UnixMilli() }
	rows := []errorRow{}
	kinds := h.errorsOf(l).read()
	for i, kind := range kinds[:others] {
		if n := uint64(counts[i]); n > 0 {
			rows = append(rows, errorRow{typeText(kind.typ), kind.class.String(), n, unixMilli(kind.began), unixMilli(kind.last)})
		}
	}
	slices.SortStableFunc(rows, func(a, b errorRow) int { return int(b.Count) - int(a.Count) })
	if n := uint64(counts[others]); n > 0 {
		rows = append(rows, errorRow{Type: otherErrors, Count: n})
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
