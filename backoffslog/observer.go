// Package backoffslog logs what policies, hedges and breakers do, by log/slog: every
// retry with what led to it, every end with its reason, every change of a breaker.
//
//	policy := backoff.Policy{Name: "fetch", Observer: backoffslog.New(nil, nil)}
//
// The message of a record is the kind of its event, such as "retry". The attributes are
// those that apply among:
//
//	operation     the name of the policy, hedge or breaker
//	attempt       that has just ended, from 1
//	max_attempts  left out where there is no limit
//	hedge         the number of a hedge, from 1, as backoff.HedgeNumber tells it
//	class         of the error, such as "throttled"
//	error         its text, without secrets (see Redact)
//	error_type    see ErrorType
//	delay         before the next attempt, as the schedule says
//	wait          the same with jitter, hint and budget: what will be slept
//	slept         what was slept before this attempt
//	hint          what the server asked for
//	elapsed       since the call began, as in backoff.Error; left out where that is 0
//	reason        why the call ended or was refused
//	waiting       true if the call ended between two attempts
//	header        a group, of the response's headers that Options names
//	from, to, trigger, generation, retry_after  of a breaker's transition
//	suppressed    how many records like this one were left out since the last
//
// # Secrets
//
// An error's text may hold what must not be in a log, as that of a [*net/url.Error] does:
// the whole URL. All texts go through [Redact]. Of the headers only those named are
// logged. The request, its body and its idempotency key are not logged. The error that
// the caller gets is not changed.
package backoffslog

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/limits"
)

// LevelOff is a level that no handler is asked for: what has it is not logged.
const LevelOff = slog.Level(math.MinInt)

// Options say what is logged. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// Level gives each event its level; LevelOff switches its kind off. It is called for
	// every event and should be quick. nil means DefaultLevel.
	Level func(backoff.Event) slog.Level
	// Headers are the response headers that are logged, whatever their case. nil means
	// DefaultHeaders, an empty slice none. What is a secret by its name, such as
	// Set-Cookie, is logged as "xxxxx".
	Headers []string
	// PerSecond is how many records there may be in a second for each operation, kind of
	// event and reason, so that an outage does not flood the log. The first ones of a second
	// are written, and the next one that is written says how many were not. Transitions are always
	// written. 0 means 10, a negative number no limit.
	PerSecond int
}

const defaultPerSecond = 10

// DefaultHeaders are the headers that say when to come back, and by which the operator
// of a service finds a request again.
func DefaultHeaders() []string {
	return []string{"Retry-After", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Request-Id", "Request-Id",
		"X-Correlation-Id", "X-Ms-Request-Id", "Cf-Ray", "Grpc-Status", "Grpc-Retry-Pushback-Ms"}
}

// DefaultLevel is the level of an event unless Options say otherwise.
//
//   - Debug: success at the first attempt, and hedges, won or lost.
//   - Info: retries, reconnects, success after retries, the refusal of a budget that the
//     call goes on without, a breaker that closes or probes; and calls given up for a
//     reason that lies in the answer or the caller: permanent, canceled, abandoned.
//   - Warn: all other calls given up, calls that a breaker refused, a breaker that opens.
//   - Error: what cannot be obeyed (backoff.ReasonInvalid).
func DefaultLevel(e backoff.Event) slog.Level { return levelOf(&e) }

func levelOf(e *backoff.Event) slog.Level {
	switch e.Kind {
	case backoff.EventSuccess:
		if e.Attempt <= 1 {
			return slog.LevelDebug
		}
	case backoff.EventHedgeWon, backoff.EventHedgeLost:
		return slog.LevelDebug
	case backoff.EventGiveUp:
		return endLevel(e.Reason)
	case backoff.EventRefused:
		if e.Reason != backoff.ReasonBudget {
			return endLevel(e.Reason)
		}
	case backoff.EventTransition:
		if e.Transition != nil && e.Transition.To == backoff.StateOpen {
			return slog.LevelWarn
		}
	}
	return slog.LevelInfo
}

func endLevel(why backoff.Reason) slog.Level {
	switch why {
	case backoff.ReasonPermanent, backoff.ReasonCanceled, backoff.ReasonAbandoned:
		return slog.LevelInfo
	case backoff.ReasonInvalid:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// New returns a [backoff.Observer] that writes to l, with the context of the call, so
// that handlers which add a trace find it. A nil l means slog.Default at the time of each
// event. It is safe for concurrent use; one may serve any number of policies, hedges and
// breakers, and should, as PerSecond counts for each Observer by itself.
//
// Where the level is off, an event costs a few nanoseconds and no allocation. Where it is
// on, sampling takes a lock. It remembers at most 4096 operations, kinds and reasons;
// beyond these, operations share one limit. What the handler returns as an error is
// ignored, as slog itself does.
func New(l *slog.Logger, o *Options) backoff.Observer {
	if o == nil {
		o = new(Options)
	}
	w := &writer{logger: l, limit: limits.Or(o.PerSecond, defaultPerSecond), headers: headersOf(o.Headers)}
	level := o.Level
	if level == nil {
		return func(ctx context.Context, e backoff.Event) {
			if at := levelOf(&e); w.enabled(ctx, at) {
				w.write(ctx, at, e)
			}
		}
	}
	return func(ctx context.Context, e backoff.Event) {
		if at := level(e); w.enabled(ctx, at) {
			w.write(ctx, at, e)
		}
	}
}

// writer is what an Observer logs by.
type writer struct {
	logger  *slog.Logger // nil for the default
	limit   int
	headers []header
	sampler sampler
}

func (w *writer) enabled(ctx context.Context, at slog.Level) bool {
	return at != LevelOff && w.target().Enabled(ctx, at)
}

func (w *writer) target() *slog.Logger {
	if w.logger == nil {
		return slog.Default()
	}
	return w.logger
}

// write is kept out of the Observer, whose event would else be on the heap.
//
//go:noinline
func (w *writer) write(ctx context.Context, at slog.Level, e backoff.Event) {
	now := time.Now()
	var suppressed uint64
	if w.limit > 0 && e.Kind != backoff.EventTransition {
		var ok bool
		if suppressed, ok = w.sampler.admit(sampleOf(&e), now, w.limit); !ok {
			return
		}
	}
	r := slog.NewRecord(now, at, e.Kind.String(), 0) // no line of the program is its source
	w.describe(&r, &e)
	if suppressed > 0 {
		r.AddAttrs(slog.Uint64("suppressed", suppressed))
	}
	_ = w.target().Handler().Handle(ctx, r)
}
