package idempotency

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"
)

// A Store remembers for [Middleware] which keys it has seen and which
// responses were sent. [MemoryStore] is one for a single process, and package
// sqlstore has one in a database, for many processes. Package storetest tests
// an implementation.
//
// A key is unknown, in flight (claimed, under a lease that ends) or done (with
// a [Record]). Keys and fingerprints are 64 hexadecimal digits each. They are
// hashes: neither the key that a caller sent nor its credentials can be read
// from them. All keys of a caller begin with the same 32 digits, so that a store
// can bound what one caller takes.
//
// All methods must be safe for concurrent use by all processes that share the
// store, and must return early if ctx ends. Neither side changes a record after
// passing it to the other.
type Store interface {
	// Begin claims key for one run of the operation, or says why it cannot.
	// Of all concurrent calls for a key at most one gets EntryClaimed until
	// the lease of that claim ends.
	//
	// Begin claims a key that is unknown, and one in flight whose lease has
	// ended; then Claim.Run is one greater than before. It never claims a key
	// that has another fingerprint. An error means that nothing was claimed,
	// or that the claim, which is unused, ends with its lease.
	Begin(ctx context.Context, key, fingerprint string, lease time.Duration) (Entry, error)
	// Finish makes the key done. If c is not the latest claim of its key,
	// Finish changes nothing and returns ErrLeaseLost. A lease that has
	// ended is no reason to refuse as long as there is no newer claim.
	// Finish may be called again with the same claim.
	Finish(ctx context.Context, c Claim, r Record) error
	// Release ends the lease of a claim that is in flight. The key stays
	// known. For any other claim Release does nothing and returns nil.
	Release(ctx context.Context, c Claim) error
}

// ErrLeaseLost is returned by [Store.Finish] if the run took longer than its
// lease and another run has claimed the key.
var ErrLeaseLost = errors.New("idempotency: lease lost to another run")

// ErrStoreFull is returned by the Begin of a store that has no room for another
// key.
var ErrStoreFull = errors.New("idempotency: store full")

// An EntryState is what [Store.Begin] found.
type EntryState uint8

const (
	// EntryClaimed: the caller of Begin runs the operation, and reports by
	// Finish or Release.
	EntryClaimed EntryState = iota + 1
	// EntryInFlight: another run is executing.
	EntryInFlight
	// EntryDone: the operation was executed before.
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

// An Entry is what [Store.Begin] returns. Each field but State is set in one
// state only.
type Entry struct {
	State  EntryState
	Claim  Claim         // EntryClaimed
	Left   time.Duration // EntryInFlight: until the lease ends
	Record Record        // EntryDone
}

// A Record is a response that is kept for requests that arrive again.
type Record struct {
	// Status is the status code. It is 0 if only the effect is known; then
	// Omitted is true.
	Status int
	// Header holds the values that the handler set, and none that were set
	// around it.
	Header http.Header
	// Body is the whole body.
	Body []byte
	// Omitted says that the operation was executed but its response was not
	// kept. Then Header has no field but Location, and Body is empty.
	Omitted bool
}

// Send writes the response to w. It adds the values of Header to those that w
// has in fields to which several handlers add values, such as Set-Cookie, Vary
// and Link. In other fields it replaces them. It writes nothing if r is
// Omitted.
func (r Record) Send(w http.ResponseWriter) {
	if r.Omitted {
		return
	}
	addFields(w.Header(), r.Header)
	w.WriteHeader(r.Status)
	w.Write(r.Body)
}

// shared are the fields that a handler and the middleware around it add to.
var shared = map[string]bool{
	"Access-Control-Expose-Headers": true, "Content-Security-Policy": true, "Link": true, "Server-Timing": true,
	"Set-Cookie": true, "Vary": true, "Via": true, "Warning": true, "Www-Authenticate": true,
}

// addFields sets the fields of own in header, and adds to those that are shared.
func addFields(header, own http.Header) {
	for name, values := range own {
		if shared[http.CanonicalHeaderKey(name)] {
			values = slices.Concat(header[name], without(values, header[name]))
		}
		header[name] = slices.Clone(values)
	}
}

// size returns how many bytes the record takes in a store.
func (r Record) size() int64 {
	n := int64(len(r.Body))
	for name, values := range r.Header {
		for _, v := range values {
			n += int64(len(name) + len(v))
		}
	}
	return n
}

// omit returns what is kept of a record that is too large.
func (r Record) omit() Record {
	small := Record{Status: r.Status, Omitted: true}
	if location := r.Header.Get("Location"); location != "" && len(location) <= 2048 {
		small.Header = http.Header{"Location": {location}}
	}
	return small
}

// less returns what is kept of a record that finds no room.
func (r Record) less() Record {
	if r.Omitted {
		return Record{Status: r.Status, Omitted: true}
	}
	return r.omit()
}

// A Claim is the right to execute an operation until the lease of the claim
// ends. A handler inside [Middleware] gets its claim from [ClaimFrom].
type Claim struct {
	// Key is the key in the store: hashes of the caller's name and its key.
	Key string
	// Token belongs to this claim only.
	Token string
	// Run counts the runs under the key, from 1. If it is above 1, an earlier
	// run ended without a record: it crashed, panicked, took longer than its
	// lease, or responded with a status that is not kept. Whether that run
	// took effect is not known.
	Run int
}

// claimKey is the key of the claim in a context.
type claimKey struct{}

// ClaimFrom returns the claim of the handler whose request has the context ctx.
// It returns false outside of [Middleware].
func ClaimFrom(ctx context.Context) (Claim, bool) {
	c, ok := ctx.Value(claimKey{}).(Claim)
	return c, ok
}

// DeriveKey returns an idempotency key for a request that a handler inside
// [Middleware] sends to another service. The key is the same in every run of
// one request, and different for each name of an operation. Outside of
// Middleware DeriveKey returns "".
//
//	req.Header.Set("Idempotency-Key", idempotency.DeriveKey(ctx, "charge card"))
//
// Do not pass on the key that the caller sent: if the handler calls the other
// service twice, that service takes the second operation for a repetition of
// the first.
func DeriveKey(ctx context.Context, operation string) string {
	c, ok := ClaimFrom(ctx)
	if !ok {
		return ""
	}
	return digest(c.Key, operation)[:32]
}
