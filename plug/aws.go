package plug

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/gaveup"
	"github.com/gobackoff/backoff/internal/limits"
)

// AWSRetryer makes a policy an aws.RetryerV2, and so an aws.Retryer and a
// Retryer of Alibaba's OSS client. See [AWS].
type AWSRetryer struct {
	rule
	retries awsRetries
}

// AWS returns p as a retryer for the AWS SDK for Go v2. One retryer may serve
// any number of clients, which then share its budget:
//
//	retryer := plug.AWS(policy)
//	cfg, err := config.LoadDefaultConfig(ctx,
//		config.WithRetryer(func() aws.Retryer { return retryer }))
//
// or, for one client, func(o *s3.Options) { o.Retryer = retryer }.
//
// Unlike the SDK's own retryer, it obeys Retry-After, within p.MaxRetryAfter.
// It gives up at once if the wait would pass the context's deadline. Its
// errors are permanent to the policies around the call. It retries errors that
// p.Classify, or [backoff.DefaultClassifier], knows to be transient, and 429
// with any code. It does not retry an unknown error. Nor does it retry what a
// [backoff.Policy] inside the transport gave up on, or a backoffhttp.Transport
// that is the client's, by an error or by its last response: 4 attempts, not 3
// times 4. Such a Transport sends a POST once, unless it is told otherwise.
//
// MaxAttempts, Schedule, ByClass, Jitter, MaxDelay, MaxRetryAfter, Classify,
// Idempotency and Budget hold. A limit of ByClass ends the call in RetryDelay,
// by the attempt number that the SDK passes. The shape has no field for
// MaxElapsed and AttemptTimeout (use the context and the HTTP client), for
// Observer, and for a jitter's memory of the previous wait.
//
// An invalid policy refuses every call before its first attempt. A policy
// without a limit of attempts refuses calls whose context has no deadline. If the
// retryer refuses an attempt, the [*backoff.Error] has Attempts 0: the SDK says
// only in RetryDelay how many were made. Attempt numbers below 1 count as 1: the
// SDK counts retries from 1, or from 0 with AWS_NEW_RETRIES_2026=true, and then
// the first step of the schedule is taken twice.
//
// The Budget is asked before each attempt, waits included, and gets the result
// after it. The SDK does not return every token. It keeps the token of a call
// that is canceled during a wait, and since 2026 the token of a retry's
// attempt. So a retry is accounted for by its retry token alone, which is
// given back when the context ends. The context of the call distinguishes the
// attempt of a retry from a first attempt. If calls that run at the same time
// share a context, one may be taken for the other; their sum is right.
//
// A retryer is safe for concurrent use. It keeps a copy of p. It takes no lock
// while calls succeed.
func AWS(p backoff.Policy) *AWSRetryer {
	if p.Budget == nil {
		p.Budget = backoff.JoinBudgets() // grants everything
	}
	return &AWSRetryer{rule: newRule(p)}
}

// IsErrorRetryable implements aws.Retryer. It is false for nil. It is true
// even if the server asks for too long a wait, or a backoffhttp.Transport gave up
// on the response: RetryDelay then ends the call with an error that says so to
// the policies around it.
func (r *AWSRetryer) IsErrorRetryable(err error) bool {
	return r.transient(awsHinted(err)) || r.err == nil && awsGaveUp(err) != nil
}

// MaxAttempts implements aws.Retryer, in which 0 means no limit. It is the
// largest limit that ByClass has for a class; RetryDelay knows the others.
func (r *AWSRetryer) MaxAttempts() int { return max(0, r.mostAttempts()) }

// mostAttempts returns how many attempts a call may have at most; a negative
// number means no limit.
func (r *AWSRetryer) mostAttempts() int {
	if r.err != nil {
		return 1
	}
	most := limits.Or(r.policy.MaxAttempts, 4)
	for class := range r.policy.ByClass {
		if n := r.attemptsAfter(class); most > 0 && (n < 0 || n > most) {
			most = n
		}
	}
	return most
}

// RetryDelay implements aws.Retryer. It fails with a [*backoff.Error] if the
// delay would pass the deadline of the call, if the server asks for more than
// MaxRetryAfter, or if a backoffhttp.Transport gave up on the response.
func (r *AWSRetryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	t := r.retries.takeByError(err)
	if r.err != nil {
		return 0, r.err
	}
	wait, final := r.decide(max(attempt, 1), awsHinted(err))
	if final == nil && t != nil && passesDeadline(t.ctx, wait) {
		final = r.pastDeadline(max(attempt, 1), err)
	}
	if final != nil && t != nil {
		r.finish(t, notSent)
	}
	return wait, final
}

// decide returns the wait before a retry, or the error of a call that gets
// none.
func (r *AWSRetryer) decide(retry int, err error) (time.Duration, error) {
	if gave := awsGaveUp(err); gave != nil {
		return 0, gave
	}
	if limit := r.attemptsAfter(r.class(err)); r.policy.ByClass != nil && limit > 0 && retry >= limit {
		return 0, r.gaveUp(backoff.ReasonAttempts, retry, err)
	}
	d := r.waits.Decide(retry, err)
	switch {
	case d.Again:
		return d.Wait, nil
	case d.Reason == backoff.ReasonPermanent:
		return 0, backoff.Permanent(err)
	}
	return 0, r.gaveUp(d.Reason, retry, err)
}

// passesDeadline reports whether a wait that begins now ends after the
// deadline.
func passesDeadline(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && wait > 0 && clock.Lasts(wait) >= time.Until(deadline)
}

// GetInitialToken implements aws.Retryer. The SDK calls GetAttemptToken
// instead.
func (r *AWSRetryer) GetInitialToken() (release func(error) error) {
	ticket, _, ok := r.policy.Budget.Reserve(backoff.Attempt{Number: 1})
	if !ok {
		return releaseNothing
	}
	return r.releaser(context.Background(), ticket)
}

// GetAttemptToken implements aws.RetryerV2. It blocks for as long as the budget
// wants the attempt to wait, or until ctx ends.
func (r *AWSRetryer) GetAttemptToken(ctx context.Context) (release func(error) error, err error) {
	if err := r.refusal(ctx, r.mostAttempts()); err != nil {
		return nil, err
	}
	if t := r.retries.takeByContext(ctx); t != nil {
		return releaseNothing, r.begin(ctx, t)
	}
	ticket, wait, ok := r.policy.Budget.Reserve(backoff.Attempt{Number: 1, Paced: true})
	if !ok {
		return nil, r.refused(backoff.ReasonBudget, "")
	}
	if ticket, err = r.waitForBudget(ctx, ticket, wait, ""); err != nil {
		r.policy.Budget.Done(ticket, notSent)
		return nil, err
	}
	return r.releaser(ctx, ticket), nil
}

// begin waits until the budget lets a retry go.
func (r *AWSRetryer) begin(ctx context.Context, t *awsRetry) error {
	ticket, err := r.waitForBudget(ctx, t.ticket, time.Until(t.until), wasRetry)
	r.retries.setTicket(t, ticket)
	if err != nil { // the SDK releases no token then
		r.finish(t, notSent)
	}
	return err
}

// GetRetryToken implements aws.Retryer. It fails if the operation must not be
// sent again, or if the budget refuses.
func (r *AWSRetryer) GetRetryToken(ctx context.Context, err error) (release func(error) error, _ error) {
	if refused := r.refusal(ctx, r.mostAttempts()); refused != nil {
		return nil, refused
	}
	if !r.repeatable(ctx, err) {
		return nil, r.refused(backoff.ReasonNotIdempotent, wasRetry)
	}
	ticket, wait, ok := r.policy.Budget.Reserve(backoff.Attempt{
		Number: 2,
		Class:  r.class(err),
		Wait:   time.Hour, // not known before RetryDelay; the budget says in Pace what is left of its own
		Paced:  true,
	})
	if !ok {
		return nil, r.refused(backoff.ReasonBudget, wasRetry)
	}
	t := &awsRetry{ctx: ctx, err: err, ticket: ticket, until: time.Now().Add(wait)}
	r.retries.add(t, func() { r.finish(t, notSent) })
	return func(err error) error {
		r.finish(t, r.result(ctx, err))
		return nil
	}, nil
}

// releaseNothing is the release of a token that needs no Done.
func releaseNothing(error) error { return nil }

// releaser returns a function that reports to the budget, once, how a first attempt
// ended.
func (r *AWSRetryer) releaser(ctx context.Context, t backoff.Ticket) func(error) error {
	var once sync.Once
	return func(err error) error {
		once.Do(func() { r.policy.Budget.Done(t, r.result(ctx, err)) })
		return nil
	}
}

// finish reports to the budget, once, how a retry ended.
func (r *AWSRetryer) finish(t *awsRetry, result backoff.Result) {
	if ticket, ok := r.retries.finish(t); ok {
		r.policy.Budget.Done(ticket, result)
	}
}

// notSent is the result of an attempt that was granted and not made.
var notSent = backoff.Result{NotSent: true}

// waitForBudget waits as long as the budget wants, and then asks it to confirm
// the attempt. It returns the ticket that the budget wants back. note is for the
// error of a refusal.
func (r *AWSRetryer) waitForBudget(ctx context.Context, t backoff.Ticket, wait time.Duration, note string) (backoff.Ticket, error) {
	for again := true; again; again = wait > 0 {
		if passesDeadline(ctx, wait) {
			return t, r.pastDeadline(0, nil)
		}
		if !clock.Sleep(ctx, wait) {
			return t, errtree.Ended(ctx)
		}
		granted := false
		if t, wait, granted = r.policy.Budget.Pace(t); !granted {
			return t, r.refused(backoff.ReasonBudget, note)
		}
	}
	if !r.policy.Budget.Confirm(t) {
		return t, r.refused(backoff.ReasonBudget, note)
	}
	return t, nil
}

// result returns the result of an attempt for the budget.
func (r *AWSRetryer) result(ctx context.Context, err error) backoff.Result {
	after, _ := hintOf(awsResponse(err))
	return backoff.Result{Failed: err != nil, Canceled: err != nil && ctx.Err() != nil, Class: r.class(err), RetryAfter: after}
}

// wasRetry is what the error of a retry that does not start says besides its
// reason.
const wasRetry = "it was a retry"

// refused returns the error of an attempt that does not start. The SDK tells how
// many were made only to RetryDelay.
func (r *AWSRetryer) refused(why backoff.Reason, note string) error {
	gave := r.gaveUp(why, 0, nil)
	gave.Note = note
	return gave
}

// awsHinted marks an error of the SDK with the Retry-After of its response.
func awsHinted(err error) error { return hinted(err, awsResponse(err)) }

// awsGaveUp returns why a backoffhttp.Transport gave up on the response behind an
// error of the SDK, or nil if it did not, or leaves retrying to others.
func awsGaveUp(err error) *backoff.Error {
	resp := awsResponse(err)
	if resp == nil {
		return nil
	}
	m := gaveup.Of(resp.Request)
	if m == nil || m.Answer != resp || m.Why.RetryableError() {
		return nil
	}
	gave := *m.Why
	gave.Last, gave.Note = err, cmp.Or(m.Remark, gave.Note)
	return &gave
}

// awsResponse finds the response behind an error of the SDK. The ResponseError
// of the SDK has a method HTTPResponse. Its result is a struct around an
// *http.Response, of a type that cannot be named here.
func awsResponse(err error) *http.Response {
	for left := errtree.Most; err != nil && left > 0; left, err = left-1, errors.Unwrap(err) {
		method := reflect.ValueOf(err).MethodByName("HTTPResponse")
		if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
			continue
		}
		result := reflect.Indirect(method.Call(nil)[0])
		if result.Kind() != reflect.Struct {
			continue
		}
		if resp := result.FieldByName("Response"); resp.IsValid() && resp.CanInterface() {
			found, _ := resp.Interface().(*http.Response)
			return found
		}
	}
	return nil
}

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
