package plug

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
)

// awsRetry is a retry that an AWSRetryer granted.
type awsRetry struct {
	ctx      context.Context // of the attempt that failed
	err      error           // what the attempt failed with
	until    time.Time       // when the budget allows the retry
	stop     func() bool     // ends the watch over ctx
	ticket   backoff.Ticket
	finished bool // Done was called
}

// awsRetries are the retries that were granted and have not begun. The SDK does
// not say which retry it means: a retry is found by the error that it follows,
// and by the end of its context.
type awsRetries struct {
	count atomic.Int64 // in byDone

	mu      sync.Mutex
	byDone  map[<-chan struct{}][]*awsRetry
	byError map[error]*awsRetry // those whose delay was not asked for; nil if two have the same error
}

// add keeps a retry until it begins or is finished. If its context ends before
// that, add forgets it and calls expired.
func (w *awsRetries) add(t *awsRetry, expired func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byDone == nil {
		w.byDone, w.byError = make(map[<-chan struct{}][]*awsRetry), make(map[error]*awsRetry)
	}
	done := t.ctx.Done()
	w.byDone[done] = append(w.byDone[done], t)
	w.count.Add(1)
	if isMapKey(t.err) {
		if _, shared := w.byError[t.err]; shared {
			w.byError[t.err] = nil
		} else {
			w.byError[t.err] = t
		}
	}
	if done != nil {
		t.stop = context.AfterFunc(t.ctx, func() {
			w.mu.Lock()
			waits := w.remove(t)
			w.mu.Unlock()
			if waits {
				expired()
			}
		})
	}
}

// takeByError returns the retry whose delay is asked for; nil if it is not
// known.
func (w *awsRetries) takeByError(err error) *awsRetry {
	if !isMapKey(err) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.byError[err]
	delete(w.byError, err)
	return t
}

// takeByContext returns the retry that begins with an attempt under ctx; nil if
// the attempt is a first one. It takes no lock while there are no retries.
func (w *awsRetries) takeByContext(ctx context.Context) *awsRetry {
	if w.count.Load() == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if retries := w.byDone[ctx.Done()]; len(retries) > 0 {
		t := retries[0]
		w.remove(t)
		return t
	}
	return nil
}

// setTicket replaces the ticket of a retry.
func (w *awsRetries) setTicket(t *awsRetry, ticket backoff.Ticket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.ticket = ticket
}

// finish forgets a retry that has ended. It returns its ticket, and false if the
// retry was finished before.
func (w *awsRetries) finish(t *awsRetry) (backoff.Ticket, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(t)
	if t.stop != nil {
		t.stop()
	}
	before := t.finished
	t.finished = true
	return t.ticket, !before
}

// remove forgets a retry, under the lock. It reports whether the retry had not begun.
func (w *awsRetries) remove(t *awsRetry) bool {
	if isMapKey(t.err) && w.byError[t.err] == t {
		delete(w.byError, t.err)
	}
	done := t.ctx.Done()
	i := slices.Index(w.byDone[done], t)
	if i < 0 {
		return false
	}
	if w.byDone[done] = slices.Delete(w.byDone[done], i, i+1); len(w.byDone[done]) == 0 {
		delete(w.byDone, done)
	}
	w.count.Add(-1)
	return true
}

// isMapKey reports whether err may be the key of a map.
func isMapKey(err error) bool { return err != nil && reflect.ValueOf(err).Comparable() }
