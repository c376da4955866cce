package backoffmetrics

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/snapshot"
)

const (
	defaultMaxNames = 100
	slots           = 128
)

// key is what events are counted by: the name of a policy, hedge or breaker, and
// what the call is sent to, or nil.
type key struct {
	name string
	to   *endpoint.Endpoint
}

// labelsOf returns the labels of a key.
func labelsOf(k key) snapshot.Labels {
	l := snapshot.Labels{Name: snapshot.Label(k.name)}
	if k.to != nil {
		l.Endpoint = snapshot.Label(k.to.Name)
	}
	return l
}

// others are the labels that keys share if there are too many.
var others = snapshot.Labels{Name: snapshot.Other}

// names keeps one T for each key, as long as there are not too many. A lookup
// takes no lock. For a key that came early it needs no hash either.
type names[T any] struct {
	recent   [slots]atomic.Pointer[known[T]]
	byLabels sync.Map // of *named[T]
	full     atomic.Bool

	mu    sync.Mutex
	all   []*named[T]
	count int
}

// named is a T and its labels.
type named[T any] struct {
	snapshot.Labels
	value T
}

// known is the T of a key.
type known[T any] struct {
	key
	*named[T]
}

// lookup returns the T of a key that came early, else nil.
func (n *names[T]) lookup(k key) *named[T] {
	if known := n.recent[slot(k)].Load(); known != nil && known.key == k {
		return known.named
	}
	return nil
}

// slot returns the index of a key in recent. It differs for most keys of a
// program, and costs hardly anything.
func slot(k key) int {
	at := mix(k.name)
	if k.to != nil {
		at += 5 * mix(k.to.Name)
	}
	return at % slots
}

// mix returns a number that differs for most names.
func mix(name string) int {
	if name == "" {
		return 0
	}
	return len(name)*7 + int(name[len(name)-1]) + 3*int(name[len(name)/2])
}

// at is lookup, and get where that finds nothing.
func (n *names[T]) at(k key, limit int) *named[T] {
	if known := n.lookup(k); known != nil {
		return known
	}
	return n.get(k, limit)
}

// get returns the T of a key. Beyond the limit all keys share one T.
func (n *names[T]) get(k key, limit int) *named[T] {
	if known := n.second(k).Load(); known != nil && known.key == k {
		return known.named
	}
	l := labelsOf(k)
	if l.Name == snapshot.Other || l.Endpoint == snapshot.Other {
		l = others
	}
	found, ok := n.byLabels.Load(l)
	if !ok && n.full.Load() {
		found, ok = n.byLabels.Load(others)
	}
	if !ok {
		found = n.add(l, limit)
	}
	n.remember(k, found.(*named[T]))
	return found.(*named[T])
}

// second is the slot of a key whose own slot has another key of the same labels:
// two clients may have each an Endpoint of the same name.
func (n *names[T]) second(k key) *atomic.Pointer[known[T]] { return &n.recent[(slot(k)+1)%slots] }

// remember makes the next lookup of a key cheap. An Endpoint that was made
// again replaces the former one.
func (n *names[T]) remember(k key, t *named[T]) {
	at := &n.recent[slot(k)]
	before := at.Load()
	if before != nil && before.named == t {
		if next := n.second(k).Load(); next == nil || next.named == t {
			at, before = n.second(k), next
		}
	}
	if t.Labels != others && (before == nil || before.named == t) {
		at.CompareAndSwap(before, &known[T]{key{strings.Clone(k.name), k.to}, t})
	}
}

// add returns the T of new labels.
func (n *names[T]) add(l snapshot.Labels, limit int) any {
	n.mu.Lock()
	defer n.mu.Unlock()
	limit = limits.Or(limit, defaultMaxNames)
	if l != others && limit > 0 && n.count >= limit {
		n.full.Store(true)
		l = others
	}
	if found, ok := n.byLabels.Load(l); ok {
		return found
	}
	added := &named[T]{Labels: snapshot.Labels{Name: strings.Clone(l.Name), Endpoint: strings.Clone(l.Endpoint)}}
	if l != others {
		n.count++
	}
	n.byLabels.Store(added.Labels, added)
	n.all = append(n.all, added)
	return added
}

// sorted returns all that there are, sorted by their labels.
func (n *names[T]) sorted() []*named[T] {
	n.mu.Lock()
	all := slices.Clone(n.all)
	n.mu.Unlock()
	slices.SortFunc(all, func(a, b *named[T]) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Endpoint, b.Endpoint))
	})
	return all
}

// bound limits how many keys are shown by themselves.
type bound struct {
	limit int
	keys  map[string]bool
}

func (m *Metrics) newBound() *bound {
	return &bound{limits.Or(m.MaxNames, defaultMaxNames), make(map[string]bool)}
}

// label returns the name under which a key is shown.
func (b *bound) label(key string) string {
	l := snapshot.Label(key)
	if !b.keys[l] && b.limit > 0 && len(b.keys) >= b.limit {
		return snapshot.Other
	}
	b.keys[l] = true
	return strings.Clone(l)
}
