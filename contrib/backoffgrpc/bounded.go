package backoffgrpc

import (
	"sync"
	"sync/atomic"
)

// bounded has a value for each of its first maxKeys keys. The other keys share
// one, since a proxy may call methods and servers that an untrusted client
// names.
type bounded[K comparable, V any] struct {
	byKey sync.Map // of *V, by K
	count atomic.Int64
	other V
}

const maxKeys = 1024

// of returns the value of a key, which is made if there is none.
func (b *bounded[K, V]) of(key K, made func() *V) *V {
	if known, ok := b.byKey.Load(key); ok {
		return known.(*V)
	}
	if b.count.Add(1) > maxKeys {
		b.count.Add(-1)
		return &b.other
	}
	known, loaded := b.byKey.LoadOrStore(key, made())
	if loaded {
		b.count.Add(-1)
	}
	return known.(*V)
}
