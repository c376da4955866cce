package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/gobackoff/backoff"
)

// A tally is an observer that counts for the summary.
type tally struct {
	mu      sync.Mutex
	figures figures
}

// figures are the counts of a tally.
type figures struct {
	atOnce, retried, failed, refused int // calls; the breaker refused some of them
	attempts, openings               int
}

func (f figures) calls() int { return f.atOnce + f.retried + f.failed + f.refused }

// observe implements [backoff.Observer].
func (t *tally) observe(_ context.Context, e backoff.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.figures
	switch e.Kind {
	case backoff.EventRetry:
		f.attempts++
	case backoff.EventSuccess:
		f.attempts++
		if e.Attempt == 1 {
			f.atOnce++
		} else {
			f.retried++
		}
	case backoff.EventGiveUp:
		if e.Attempt > 0 && !e.Waiting {
			f.attempts++
		}
		if e.Attempt == 0 && e.Reason == backoff.ReasonOpen {
			f.refused++
		} else {
			f.failed++
		}
	case backoff.EventTransition:
		if e.Transition.To == backoff.BreakerOpen {
			f.openings++
		}
	}
}

func (t *tally) read() figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.figures
}

// String returns the summary.
func (t *tally) String() string {
	f := t.read()
	return fmt.Sprintf("calls     %d: %d succeeded at once, %d after retries, %d failed, %d refused by the breaker\n"+
		"attempts  %d: %.2f per call that was let through\n"+
		"breaker   opened %d times\n",
		f.calls(), f.atOnce, f.retried, f.failed, f.refused,
		f.attempts, float64(f.attempts)/float64(max(1, f.calls()-f.refused)), f.openings)
}
