// Package inorder passes values to a function in order and one at a time, with
// no lock held.
package inorder

import "sync"

// A Queue holds values that a function has yet to receive. Its owner's lock
// guards it. The zero value is empty.
type Queue[T any] struct {
	waiting    []T
	delivering bool
}

// Add adds a value, under the lock.
func (q *Queue[T]) Add(v T) { q.waiting = append(q.waiting, v) }

// Claim reports, under the lock, whether there are values that nobody delivers.
// If so, the caller must give the lock back and call Deliver.
func (q *Queue[T]) Claim() bool {
	if len(q.waiting) == 0 || q.delivering {
		return false
	}
	q.delivering = true
	return true
}

// Deliver calls receive with one value after the other, until there are none,
// and returns. It runs receive on another goroutine: if receive ends that, by
// runtime.Goexit, one more goes on. mu is the lock of the owner.
func (q *Queue[T]) Deliver(mu sync.Locker, receive func(T)) {
	done := make(chan struct{})
	go q.deliver(mu, receive, done)
	<-done
}

func (q *Queue[T]) deliver(mu sync.Locker, receive func(T), done chan struct{}) {
	empty := false
	defer func() {
		if empty {
			close(done)
			return
		}
		go q.deliver(mu, receive, done)
	}()
	for v, ok := q.next(mu); ok; v, ok = q.next(mu) {
		receive(v)
	}
	empty = true
}

// next takes the oldest value. If there is none, the next one is somebody
// else's.
func (q *Queue[T]) next(mu sync.Locker) (oldest T, ok bool) {
	mu.Lock()
	defer mu.Unlock()
	if len(q.waiting) == 0 {
		q.waiting, q.delivering = nil, false
		return oldest, false
	}
	oldest = q.waiting[0]
	q.waiting = q.waiting[1:]
	return oldest, true
}
