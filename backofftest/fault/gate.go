package fault

import (
	"net"
	"os"
	"sync"
	"time"
)

// A gate is where a connection waits in one direction, no longer than its deadline.
type gate struct {
	mu       sync.Mutex
	deadline time.Time
	moved    chan struct{} // closed when the deadline is set; nil if nobody waits
}

// set sets the deadline.
func (g *gate) set(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.deadline = t; g.moved != nil {
		close(g.moved)
		g.moved = nil
	}
}

// wait waits for d, and returns an error if the deadline comes before, or closed is
// closed.
func (g *gate) wait(closed <-chan struct{}, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		g.mu.Lock()
		if g.moved == nil {
			g.moved = make(chan struct{})
		}
		moved, late := g.moved, time.Duration(forever)
		if !g.deadline.IsZero() {
			late = time.Until(g.deadline)
		}
		g.mu.Unlock()
		timer := time.NewTimer(late)
		select {
		case <-over.C:
			timer.Stop()
			return nil
		case <-timer.C:
			return os.ErrDeadlineExceeded
		case <-closed:
			timer.Stop()
			return net.ErrClosed
		case <-moved:
			timer.Stop()
		}
	}
}
