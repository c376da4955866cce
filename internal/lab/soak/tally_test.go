package soak

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// An outcome is how a call ended for its caller. The first ones are the
// library's reasons for giving up.
type outcome = backoff.Reason

const (
	answered = outcome(0)
	unknown  = backoff.ReasonInvalid + 1 // nothing that a caller could understand
)

// tally counts the outcomes of calls and the events of the observer.
type tally struct {
	confirmed ledger // calls that were answered
	unsent    ledger // calls that were refused before anything was sent

	outcomes [unknown + 1]atomic.Int64
	surprise atomic.Pointer[error] // the last error that a caller could not understand

	events   [backoff.EventTransition + 1]atomic.Int64
	attempts atomic.Int64 // that the observer was told of
	openings atomic.Int64
	peak     atomic.Int64 // of goroutines
}

func newTally(calls int) *tally {
	return &tally{confirmed: newLedger(calls), unsent: newLedger(calls)}
}

// ended counts a call. If the breaker refused it, the caller waits for as long
// as the error says.
func (t *tally) ended(call int, err error) {
	what := outcomeOf(err, call)
	t.outcomes[what].Add(1)
	switch {
	case what == answered:
		t.confirmed.add(call)
	case what == unknown:
		t.surprise.Store(&err)
	}
	if wait, open := refused(err); open {
		t.unsent.add(call)
		time.Sleep(max(wait, time.Millisecond)) // how long a probe takes is not known
	}
	if call%64 == 0 {
		t.sample()
	}
}

func outcomeOf(err error, call int) outcome {
	if err == nil {
		return answered
	}
	if _, open := refused(err); open {
		return backoff.ReasonOpen
	}
	if e, ok := errors.AsType[*backoff.Error](err); ok {
		return e.Reason
	}
	if e, ok := errors.AsType[*backoffhttp.StatusError](err); ok && e.Code == http.StatusNotFound && missing(call) {
		return backoff.ReasonPermanent
	}
	return unknown
}

func (t *tally) sample() {
	for now, old := int64(runtime.NumGoroutine()), t.peak.Load(); now > old; old = t.peak.Load() {
		if t.peak.CompareAndSwap(old, now) {
			return
		}
	}
}

// observe is the Observer of all calls.
func (t *tally) observe(_ context.Context, e backoff.Event) {
	t.events[e.Kind].Add(1)
	switch e.Kind {
	case backoff.EventRetry, backoff.EventSuccess, backoff.EventHedgeWon, backoff.EventHedgeLost:
		t.attempts.Add(1)
	case backoff.EventGiveUp:
		if e.Attempt > 0 && !e.Waiting {
			t.attempts.Add(1)
		}
	case backoff.EventTransition:
		if e.Transition.To == backoff.BreakerOpen {
			t.openings.Add(1)
		}
	}
}

// service has a budget with a short memory, which an outage uses up, and a breaker that
// opens during one.
func (t *tally) service(host string) *guard.Service {
	return &guard.Service{
		Budget: &backoff.RetryBudget{Window: 100 * time.Millisecond},
		Breaker: &backoff.Breaker{
			Name: host, Window: 100 * time.Millisecond, ConsecutiveFailures: 20, ConsecutiveSpan: -1,
			OpenFor: backoff.Constant(3 * time.Millisecond), MaxRetryAfter: 3 * time.Millisecond, Observer: t.observe,
		},
	}
}

func (t *tally) String() string {
	var b strings.Builder
	for what := range t.outcomes {
		if n := t.outcomes[what].Load(); n > 0 {
			fmt.Fprintf(&b, ", %d %s", n, nameOf(outcome(what)))
		}
	}
	return strings.TrimPrefix(b.String(), ", ")
}

func nameOf(what outcome) string {
	if what == unknown {
		return "unknown"
	}
	return what.String()
}
