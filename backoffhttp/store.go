package backoffhttp

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// A Store remembers, for [Dedup], which keys were seen and what was answered. The
// ready-made ones are [MemoryStore], for one process, and package sqlstore, for a database
// shared by many. Package storetest has the tests for one's own.
//
// A key is in one of three states: unknown, in flight (claimed, with a lease that ends),
// and done (with a [Record]). Keys and fingerprints are 64 hexadecimal digits: hashes, of
// which neither the caller's key nor his credentials can be read back.
//
// All methods must be safe for concurrent use, by all processes that share the store, and
// must heed the context. Records that are handed in or out are not modified afterwards, by
// neither side.
type Store interface {
	// Begin claims key for one run of the operation, or says why it cannot. Of any number
	// of concurrent calls for a key at most one gets EntryClaimed, until the lease of that
	// claim ends.
	//
	// An unknown key is claimed; so is one in flight whose lease has ended, with a
	// Claim.Run one greater than before. A key whose fingerprint differs is never claimed.
	// An error means that nothing was claimed, or that a claim which nobody holds ends with
	// its lease.
	Begin(ctx context.Context, key, fingerprint string, lease time.Duration) (Entry, error)
	// Finish makes the key done. It returns ErrLeaseLost, and changes nothing, if the claim
	// is not the latest one of its key; that the lease has ended is no reason as long as
	// nobody else has claimed the key. It may be called again with the same claim.
	Finish(ctx context.Context, c Claim, r Record) error
	// Release ends the lease of a claim that is still in flight; the key stays known. For
	// any other claim it does nothing and returns nil.
	Release(ctx context.Context, c Claim) error
}

// ErrLeaseLost is returned by [Store.Finish] for a claim that was taken over: its run took
// longer than its lease, and another one has begun.
var ErrLeaseLost = errors.New("backoffhttp: lease lost to another run")

// ErrStoreFull is returned by the Begin of a store that has no room for another key.
var ErrStoreFull = errors.New("backoffhttp: store full")

// An EntryState is what [Store.Begin] found.
type EntryState uint8

const (
	// EntryClaimed: the caller runs the operation, and reports by Finish or Release.
	EntryClaimed EntryState = iota + 1
	// EntryInFlight: somebody else runs it.
	EntryInFlight
	// EntryDone: it was run before.
	EntryDone
	// EntryMismatch: the key belongs to another request.
	EntryMismatch
)

// String returns the name of the state in lower case.
func (s EntryState) String() string {
	names := [...]string{"invalid", "claimed", "in flight", "done", "mismatch"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[0]
}

// An Entry is the answer of [Store.Begin].
type Entry struct {
	State  EntryState
	Claim  Claim         // EntryClaimed
	Left   time.Duration // EntryInFlight: until the lease ends
	Record Record        // EntryDone
}

// A Claim is the right to run an operation, until its lease ends. A handler under [Dedup]
// finds its own by [ClaimFrom].
type Claim struct {
	// Key is that of the store: a hash of the caller and his key.
	Key string
	// Token is of this claim only.
	Token string
	// Run counts the runs under the key, from 1. Above 1 an earlier run has ended without a
	// record: it crashed, panicked, took longer than its lease, or answered with a status
	// that is not kept. Whether it had an effect is not known.
	Run int
}

// A Record is a response, as it is kept for those who ask again.
type Record struct {
	// Status is the status code; 0 if only the effect is known ([Record.Omitted]).
	Status int
	// Header holds the fields that the handler set.
	Header http.Header
	// Body is the whole body.
	Body []byte
	// Omitted says that the operation is done, but its response was not kept. Of a Header
	// there is no more than Location, then, and no Body.
	Omitted bool
}

// Send writes the response to w. It does nothing about a record that is Omitted.
func (r Record) Send(w http.ResponseWriter) {
	if r.Omitted {
		return
	}
	header := w.Header()
	for name, values := range r.Header {
		header[name] = append([]string(nil), values...)
	}
	w.WriteHeader(r.Status)
	w.Write(r.Body)
}

// size is what a record costs to keep.
func (r Record) size() int64 {
	n := int64(len(r.Body))
	for name, values := range r.Header {
		for _, v := range values {
			n += int64(len(name) + len(v))
		}
	}
	return n
}

// omit returns what is left of a record that is too large.
func (r Record) omit() Record {
	small := Record{Status: r.Status, Omitted: true}
	if location := r.Header.Get("Location"); location != "" && len(location) <= 2048 {
		small.Header = http.Header{"Location": {location}}
	}
	return small
}
