// Package backoffslog logs what policies, hedges and breakers do, by log/slog:
// every retry with its cause, every end of a call with its reason, and every
// transition of a breaker.
//
//	policy := backoff.Policy{Name: "fetch", Observer: backoffslog.New(nil, nil)}
//
// The message of a record is the kind of its event, such as "retry", or
// "suppressed". A record has those of the following attributes that apply:
//
//	operation     the name of the policy, hedge or breaker; of a policy without
//	              a name the endpoint
//	endpoint      what the call is sent to, such as "GET api.example.com", if
//	              that is known (see package endpoint)
//	attempt       the attempt that has just ended, from 1
//	max_attempts  the limit; left out if there is none
//	hedge         the number of a hedge, from 1 (see hedge.Number)
//	class         of the error, such as "throttled"; of a refusal by a breaker
//	              that of the failure which opened the circuit; of a call that
//	              ended before its first attempt "not sent"
//	error         the error's text, without the secrets of URLs (see Redact)
//	error_type    the kind of the error (see ErrorType)
//	delay         before the next attempt, as the schedule says
//	wait          before the next attempt, as it will be slept: with jitter,
//	              retry_after and the budget's wait
//	slept         before this attempt
//	retry_after   what the server asked for; in a breaker's transition, how long
//	              the circuit will be open
//	elapsed       since the call began; left out if 0
//	reason        why the call ended or was refused
//	setting       the field that sets the limit, such as "MaxAttempts"
//	waiting       true if the call ended between two attempts
//	header        a group: the response headers that Options names
//	from, to, trigger, generation  of a breaker's transition
//	suppressed    how many records like this one were left out before it; in a
//	              record "suppressed", at the end of a burst
//	event         in a record "suppressed", the message of those left out
//
// # Secrets
//
// The text of an error often holds a URL, as that of a [*net/url.Error] does. All
// texts go through [Redact], which hides the secret parts of URLs, and nothing
// else: an error of your own should not say a secret. Of the headers only those
// named in Options are logged. The request, its body and its idempotency key
// are never logged. The error that the caller gets is not changed.
package backoffslog

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/gobackoff/backoff"
)

// LevelOff switches an event off: a record of this level is not logged, and no
// handler is asked about it.
const LevelOff = slog.Level(math.MinInt)

// Options says what is logged. The zero value and a nil pointer mean the
// defaults.
type Options struct {
	// Level returns the level of an event. LevelOff switches the event off.
	// Level is called for every event and should be quick. nil means
	// DefaultLevel.
	Level func(backoff.Event) slog.Level
	// Headers are the response headers that are logged; case does not matter.
	// nil means DefaultHeaders, and an empty slice means none. A header whose
	// name indicates a secret, such as Set-Cookie, is logged as "xxxxx".
	Headers []string
	// PerSecond limits the records of a second for each operation, endpoint, kind
	// of event and reason, so that an outage does not flood the log. The first
	// records of a second are written; the next record that is written says
	// how many were not. If none follows within 2 to 4 seconds, a record
	// "suppressed" does, at the highest of their levels. Transitions are always
	// written. 0 means 10, and a negative number means no limit.
	PerSecond int
}

// defaultPerSecond is the default of Options.PerSecond.
const defaultPerSecond = 10

// DefaultHeaders returns the headers that say when to retry, and those by
// which the operator of a service finds a request.
func DefaultHeaders() []string {
	return []string{"Retry-After", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Request-Id", "Request-Id",
		"X-Correlation-Id", "X-Ms-Request-Id", "Cf-Ray", "Grpc-Status", "Grpc-Retry-Pushback-Ms"}
}

// DefaultLevel returns the level of an event unless Options says otherwise.
//
//   - Debug: success at the first attempt, and hedges, won or lost.
//   - Info: retries, reconnects, success after retries, the refusal of a budget
//     that the call goes on without, or of a breaker that the call waits for, a
//     breaker that closes or probes, and calls given up for a reason that lies
//     with the response or the caller: permanent, canceled, abandoned.
//   - Warn: all other calls given up, calls that a breaker refused, a breaker
//     that opens.
//   - Error: an invalid policy (backoff.ReasonInvalid).
func DefaultLevel(e backoff.Event) slog.Level {
	switch e.Kind {
	case backoff.EventSuccess:
		if e.Attempt <= 1 {
			return slog.LevelDebug
		}
	case backoff.EventHedgeWon, backoff.EventHedgeLost:
		return slog.LevelDebug
	case backoff.EventGiveUp:
		return levelOfReason(e.Reason)
	case backoff.EventRefused:
		if e.Reason != backoff.ReasonBudget && e.Wait == 0 {
			return levelOfReason(e.Reason)
		}
	case backoff.EventTransition:
		if e.Transition != nil && e.Transition.To == backoff.BreakerOpen {
			return slog.LevelWarn
		}
	}
	return slog.LevelInfo
}

// levelOfReason is the level of the end of a call.
func levelOfReason(r backoff.Reason) slog.Level {
	switch r {
	case backoff.ReasonPermanent, backoff.ReasonCanceled, backoff.ReasonAbandoned:
		return slog.LevelInfo
	case backoff.ReasonInvalid:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// New returns a [backoff.Observer] that writes to l, with the context of the
// call, so that handlers which add a trace find it. A nil l means slog.Default
// at the time of each event. The Observer is safe for concurrent use. One
// Observer can serve any number of policies, hedges and breakers, and should,
// since each counts PerSecond by itself.
//
// If its level is off, an event costs a few nanoseconds and does not allocate.
// If the level is on, sampling takes a lock, and a burst starts a timer. The
// Observer remembers at most 4096 combinations of operation, kind and reason;
// beyond that, all operations share one limit. An error that the handler
// returns is ignored, as slog itself does.
func New(l *slog.Logger, o *Options) backoff.Observer {
	if o == nil {
		o = new(Options)
	}
	w := &writer{logger: l, limit: cmp.Or(o.PerSecond, defaultPerSecond), headers: headersOf(o.Headers)}
	w.sampler.report = w.writeSuppressed
	level := o.Level
	if level == nil {
		level = DefaultLevel
	}
	return func(ctx context.Context, e backoff.Event) {
		if at := level(e); w.enabled(ctx, at) {
			w.write(ctx, at, e)
		}
	}
}

// writer writes the records of one Observer.
type writer struct {
	logger  *slog.Logger // nil means slog.Default
	limit   int          // records in a second; negative means no limit
	headers []string
	sampler sampler
}

// enabled reports whether a record of this level is logged.
func (w *writer) enabled(ctx context.Context, at slog.Level) bool {
	return at != LevelOff && w.target().Enabled(ctx, at)
}

// target returns the logger to write to.
func (w *writer) target() *slog.Logger { return cmp.Or(w.logger, slog.Default()) }

// write writes the record of an event, unless there were too many like it. It
// is not inlined, so that the Observer's event stays off the heap.
//
//go:noinline
func (w *writer) write(ctx context.Context, at slog.Level, e backoff.Event) {
	now := time.Now()
	var suppressed uint64
	if w.limit > 0 && e.Kind != backoff.EventTransition {
		var ok bool
		if suppressed, ok = w.sampler.allow(sampleKeyOf(ctx, &e), now, at, w.limit); !ok {
			return
		}
	}
	r := slog.NewRecord(now, at, e.Kind.String(), 0) // without a source line
	w.describe(ctx, &r, &e)
	if suppressed > 0 {
		r.AddAttrs(slog.Uint64("suppressed", suppressed))
	}
	_ = w.target().Handler().Handle(ctx, r)
}

// writeSuppressed writes how many records of a key were left out. There is no
// call whose context it could have. A panic of the handler is reported as one of
// an Observer.
func (w *writer) writeSuppressed(key sampleKey, at slog.Level, suppressed uint64) {
	backoff.Observer(func(ctx context.Context, _ backoff.Event) {
		if !w.enabled(ctx, at) {
			return
		}
		r := slog.NewRecord(time.Now(), at, "suppressed", 0)
		addNames(&r, key.name, key.to)
		r.AddAttrs(slog.String("event", key.kind.String()))
		if hasReason(key.kind) {
			r.AddAttrs(slog.String("reason", key.reason.String()))
		}
		r.AddAttrs(slog.Uint64("suppressed", suppressed))
		_ = w.target().Handler().Handle(ctx, r)
	}).Notify(context.Background(), backoff.Event{})
}
