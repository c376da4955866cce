// Package inorder has a lock that runs functions after it is given back, in
// order and one at a time.
package inorder

import "sync"

// A Mutex is a lock. Whoever holds it may add functions that run without it.
// The zero value is unlocked. A Mutex must not be copied after first use.
type Mutex struct {
	sync.Mutex
	queue *queue // nil before the first Add
}

type queue struct {
	waiting []func()
	running bool // somebody runs them
}

// Add adds a function, under the lock.
func (m *Mutex) Add(fn func()) {
	if m.queue == nil {
		m.queue = new(queue)
	}
	m.queue.waiting = append(m.queue.waiting, fn)
}

// Unlock gives the lock back. Then it runs the functions that were added, one
// after the other, until there are none, unless another call of Unlock does so
// already. They run on another goroutine: if one ends that, by runtime.Goexit,
// one more goes on.
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

// next takes the oldest function. If there is none, the next one is somebody
// else's.
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
