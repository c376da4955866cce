// Package inorder has a Mutex that runs deferred functions after Unlock, in order
// and one at a time.
package inorder

import "sync"

// A Mutex is a [sync.Mutex] whose holder may add functions that run after Unlock.
// The zero value is unlocked. A Mutex must not be copied after first use.
type Mutex struct {
	sync.Mutex
	queue *queue // nil before the first Add
}

type queue struct {
	waiting []func()
	running bool // an Unlock is running them
}

// Add adds a function, under the lock.
func (m *Mutex) Add(fn func()) {
	if m.queue == nil {
		m.queue = new(queue)
	}
	m.queue.waiting = append(m.queue.waiting, fn)
}

// Unlock releases the lock. Then it runs the functions that were added, one after
// the other, unless another call of Unlock is running them. They run on a goroutine
// of their own. If a function ends it, by runtime.Goexit, a new one goes on.
func (m *Mutex) Unlock() {
	q := m.queue
	claimed := q != nil && !q.running && len(q.waiting) > 0
	if claimed {
		q.running = true
	}
	m.Mutex.Unlock()
	if claimed {
		done := make(chan struct{})
		go m.run(done)
		<-done
	}
}

func (m *Mutex) run(done chan struct{}) {
	empty := false
	defer func() {
		if empty {
			close(done)
			return
		}
		go m.run(done)
	}()
	for fn := m.next(); fn != nil; fn = m.next() {
		fn()
	}
	empty = true
}

// next removes the oldest function and returns it. It returns nil, and ends the
// run, if there is none.
func (m *Mutex) next() func() {
	m.Mutex.Lock()
	defer m.Mutex.Unlock()
	q := m.queue
	if len(q.waiting) == 0 {
		q.waiting, q.running = nil, false
		return nil
	}
	oldest := q.waiting[0]
	q.waiting = q.waiting[1:]
	return oldest
}
