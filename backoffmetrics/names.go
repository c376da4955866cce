package backoffmetrics

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultMaxNames = 100
	maxName         = 200 // bytes
	slots           = 64

	unnamed = "unnamed"
	other   = "other"
)

// names keeps one T for each name, as long as there are not too many. A lookup
// takes no lock. For a name that came early it needs no hash either.
type names[T any] struct {
	recent [slots]atomic.Pointer[named[T]]
	byName sync.Map // of *named[T], by label
	full   atomic.Bool

	mu    sync.Mutex
	all   []*named[T] // in the order of their first use
	count int
}

// named is a T and its name.
type named[T any] struct {
	key   string // the name that was first asked for
	label string // the name that is shown
	value T
}

// lookup returns the T of a name that came early, else nil.
func (n *names[T]) lookup(name string) *named[T] {
	if known := n.recent[slot(name)].Load(); known != nil && known.key == name {
		return known
	}
	return nil
}

// slot returns the place of a name. It differs for most names of a program, and
// costs hardly anything.
func slot(name string) int {
	if name == "" {
		return 0
	}
	return (len(name)*7 + int(name[len(name)-1]) + 3*int(name[len(name)/2])) % slots
}

// get returns the T of name. Beyond the limit all names share one T.
func (n *names[T]) get(name string, limit int) *named[T] {
	label := labelOf(name)
	if known, ok := n.byName.Load(label); ok {
		return known.(*named[T])
	}
	if n.full.Load() {
		label = other
		if known, ok := n.byName.Load(label); ok {
			return known.(*named[T])
		}
	}
	return n.add(name, label, limit)
}

// add returns the T of a new name.
func (n *names[T]) add(name, label string, limit int) *named[T] {
	n.mu.Lock()
	defer n.mu.Unlock()
	limit = limits.Or(limit, defaultMaxNames)
	if label != other && limit > 0 && n.count >= limit {
		n.full.Store(true)
		name, label = other, other
	}
	if known, ok := n.byName.Load(label); ok {
		return known.(*named[T])
	}
	added := &named[T]{key: strings.Clone(name), label: strings.Clone(label)}
	if label == other {
		added.key = other
	} else {
		n.count++
	}
	n.byName.Store(added.label, added)
	n.all = append(n.all, added)
	n.recent[slot(added.key)].CompareAndSwap(nil, added)
	return added
}

// labelOf returns the name that is shown. Prometheus takes an empty label for a
// missing one, and refuses a whole scrape for a byte that is not UTF-8.
func labelOf(name string) string {
	switch {
	case name == "":
		return unnamed
	case len(name) > maxName:
		return other
	case !utf8.ValidString(name):
		return strings.ToValidUTF8(name, "\uFFFD")
	}
	return name
}

// inOrder returns all that there are, in the order of their first use.
func (n *names[T]) inOrder() []*named[T] {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// sorted returns all that there are, sorted by label.
func (n *names[T]) sorted() []*named[T] {
	all := n.inOrder()
	slices.SortFunc(all, func(a, b *named[T]) int { return strings.Compare(a.label, b.label) })
	return all
}
