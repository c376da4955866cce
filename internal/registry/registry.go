// Package registry keeps one value per key. It bounds the number of keys and
// forgets those that are no longer used, since an attacker may choose the keys.
package registry

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
)

// A Registry makes a value for each key when the key is first asked for. It
// forgets nothing as long as it has fewer than Max keys, and all of them are
// asked for within Idle.
//
// A key that was not asked for within Idle is forgotten when the next new keys
// come: after twice Idle at the latest. If Max keys are there, a new key takes
// the place of another. A key that was asked for only once goes first, the
// oldest first. So a flood of new keys, which an attacker may send, evicts
// itself. A key that was asked for again is evicted only by keys that are used
// more often.
//
// A value with a [Claim] is not forgotten. It moves out of the Max places, into
// up to Max further ones. If those are full too, new keys share one value.
//
// A lookup of a known key takes neither a lock nor the time.
type Registry[V any] struct {
	New   func(key string, late bool) V // makes a value, under the lock; late: when Max keys were there
	Claim func(V) Claim                 // nil: no value has one
	Max   int                           // less than 1 means 1
	Idle  time.Duration

	entries   sync.Map // of *entry[V], by key
	evictions atomic.Uint64

	mu    sync.Mutex      // guards the fields below
	fresh queue[V]        // entries that are new, or were not asked for lately
	known queue[V]        // entries that were asked for again and again
	kept  queue[V]        // entries that had a claim, beyond Max
	lost  map[string]bool // keys that were forgotten for others lately
	rest  *entry[V]       // shared by the keys without a place; nil until there is one
	swept time.Time       // when idle keys were last forgotten
	made  uint64          // how many entries were made
}

// A Claim is why a value must not be forgotten. The claim that a value has from
// the beginning does not count: New would make it with that again.
type Claim uint8

const (
	// None: the value may be forgotten.
	None Claim = iota
	// InUse: the value stays as long as it is asked for within Idle.
	InUse
	// Always is the first of the claims by which a value stays in any case.
	Always
)

// Rest is the key of the value that the keys without a place share.
const Rest = "(other)"

// An entry is a value and what is known of its use.
type entry[V any] struct {
	key    string
	value  V
	number uint64 // in the order in which they were made
	born   Claim  // from the beginning
	use    atomic.Uint32
}

// An entry counts its lookups, except the first, in the lower byte of use, and
// the sweeps since the last of them above that. Of many lookups at the same
// time, some may not be counted. The count stops at maxUses, so that an entry
// in constant use is only read.
const (
	maxUses  = 15
	oneSweep = 1 << 8
)

// The defaults of SetLimits.
const (
	defaultMax  = 1024
	defaultIdle = 10 * time.Minute
)

// SetLimits sets Max and Idle from the settings of a user: 0 means 1024 keys
// and 10 minutes, and a negative number means no limit.
func (r *Registry[V]) SetLimits(maxKeys int, idle time.Duration) {
	r.Max = limits.OrMost(maxKeys, defaultMax, math.MaxInt)
	r.Idle = limits.OrMost(idle, defaultIdle, math.MaxInt64)
}

// maxKey is how much is kept of a key: an attacker's may have a megabyte.
const maxKey = 4096

// seed is for the hash of a longer key. It is not made at the start of a program, as
// most programs need none.
var seed = sync.OnceValue(maphash.MakeSeed)

// short returns the name under which a key is kept.
func short(key string) string {
	if len(key) <= maxKey {
		return key
	}
	return key[:maxKey-20] + strconv.FormatUint(maphash.String(seed(), key), 10)
}

// Get returns the value of key.
func (r *Registry[V]) Get(key string) V {
	key = short(key)
	if v, ok := r.Find(key); ok {
		return v
	}
	return r.add(key)
}

// Find returns the value of key, and whether there is one. It makes none.
func (r *Registry[V]) Find(key string) (v V, ok bool) {
	e, ok := r.entries.Load(short(key))
	if ok {
		v = e.(*entry[V]).get()
	}
	return v, ok
}

// get returns the value and notes that it was asked for.
func (e *entry[V]) get() V {
	if use := e.use.Load(); use != maxUses {
		e.use.Store(min(use%oneSweep+1, maxUses))
	}
	return e.value
}

// Evictions returns how often Max was too small: a key was forgotten for
// another one, or one that found no place was asked for.
func (r *Registry[V]) Evictions() uint64 { return r.evictions.Load() }

// add makes the value of a new key.
func (r *Registry[V]) add(key string) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries.Load(key); ok {
		return e.(*entry[V]).get()
	}
	r.sweep(clock.Now())
	late := r.full()
	if late && !r.makeRoom() {
		r.evictions.Add(1)
		if r.rest == nil {
			r.rest = r.newEntry(Rest, true)
		}
		return r.rest.value
	}
	// A key may be a part of a longer text, which must not stay alive with it.
	e := r.newEntry(strings.Clone(key), late)
	if r.lost[key] { // it is asked for again
		e.use.Store(1)
	}
	r.fresh.push(e)
	r.entries.Store(e.key, e)
	return e.value
}

func (r *Registry[V]) newEntry(key string, late bool) *entry[V] {
	r.made++
	e := &entry[V]{key: key, value: r.New(key, late), number: r.made}
	e.born = r.claim(e)
	return e
}

// claim returns the claim of an entry.
func (r *Registry[V]) claim(e *entry[V]) Claim {
	if r.Claim == nil {
		return None
	}
	return r.Claim(e.value)
}

// stays reports whether an entry must not be forgotten.
func (r *Registry[V]) stays(e *entry[V]) bool {
	switch c := r.claim(e); c {
	case None, e.born:
		return false
	case InUse:
		return e.use.Load()/oneSweep < 2
	}
	return true
}

// full reports whether there is no place for one more key.
func (r *Registry[V]) full() bool { return len(r.fresh)+len(r.known) >= max(1, r.Max) }

// makeRoom makes a place for a key and reports whether it could. It looks at the
// entries in turn: at the fresh ones, unless there are few of them. An entry
// that was asked for becomes a known one, or stays one, with half of its
// lookups. Of the others, a known one becomes a fresh one, and a fresh one is
// forgotten.
func (r *Registry[V]) makeRoom() bool {
	r.release()
	rounds := 8 * (len(r.fresh) + len(r.known)) // then concurrent lookups no longer count
	for ; r.full(); rounds-- {
		from := &r.fresh
		if len(r.fresh) <= r.Max/8 && len(r.known) > 0 {
			from = &r.known
		}
		e := from.pop()
		stays, use := r.stays(e), e.use.Load()
		uses := use % oneSweep
		switch {
		case stays && len(r.kept) >= r.Max:
			from.push(e)
			return false
		case stays:
			r.kept.push(e)
		case uses > 0 && rounds > 0:
			e.use.CompareAndSwap(use, use-(uses+1)/2)
			r.known.push(e)
		case from == &r.known:
			r.fresh.push(e)
		default:
			r.lose(e.key)
		}
	}
	return true
}

// lose forgets a key for another one, but not that it was there: if it soon
// comes back, it counts as asked for again.
func (r *Registry[V]) lose(key string) {
	r.entries.Delete(key)
	r.evictions.Add(1)
	if r.lost == nil || len(r.lost) >= r.Max {
		r.lost = make(map[string]bool)
	}
	r.lost[key] = true
}

// release looks at two of the entries that are kept beyond Max, and takes those
// back that need not stay.
func (r *Registry[V]) release() {
	for range min(2, len(r.kept)) {
		if e := r.kept.pop(); r.stays(e) {
			r.kept.push(e)
		} else {
			r.fresh.push(e)
		}
	}
}

// sweep forgets the keys that were not asked for within Idle, once per Idle.
// The first time there are none.
func (r *Registry[V]) sweep(now time.Time) {
	if now.Sub(r.swept) < r.Idle {
		return
	}
	r.swept = now
	for _, q := range []*queue[V]{&r.fresh, &r.known, &r.kept} {
		*q = slices.DeleteFunc(*q, r.forgetsIdle)
	}
}

// forgetsIdle makes an entry older and forgets it if it was not asked for
// between two sweeps.
func (r *Registry[V]) forgetsIdle(e *entry[V]) bool {
	if e.use.Add(oneSweep)/oneSweep < 2 || r.stays(e) {
		return false
	}
	r.entries.Delete(e.key)
	return true
}

// Range calls f for each key and value, the oldest first, until it returns false.
func (r *Registry[V]) Range(f func(key string, v V) bool) {
	var all []*entry[V]
	for _, v := range r.entries.Range {
		all = append(all, v.(*entry[V]))
	}
	slices.SortFunc(all, func(a, b *entry[V]) int { return cmp.Compare(a.number, b.number) })
	r.mu.Lock()
	if r.rest != nil {
		all = append(all, r.rest)
	}
	r.mu.Unlock()
	for _, e := range all {
		if !f(e.key, e.value) {
			return
		}
	}
}

// A queue holds entries in the order in which they are looked at.
type queue[V any] []*entry[V]

func (q *queue[V]) push(e *entry[V]) { *q = append(*q, e) }

func (q *queue[V]) pop() *entry[V] {
	e := (*q)[0]
	(*q)[0] = nil
	*q = (*q)[1:]
	return e
}
