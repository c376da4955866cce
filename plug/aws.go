package plug

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// AWSRetryer makes a policy an aws.RetryerV2, and so an aws.Retryer and a
// Retryer of Alibaba's OSS client. See [AWS].
type AWSRetryer struct {
	rule

	grantedCount atomic.Int64 // number of retries in granted

	mu      sync.Mutex
	granted map[<-chan struct{}][]*awsRetry // retries not begun, by the context's Done
	delayed map[error]*awsRetry             // those that await RetryDelay; nil if two have the same error
}

// awsRetry is a retry that was granted.
type awsRetry struct {
	ctx      context.Context // the context of the attempt that failed
	err      error           // what the attempt failed with
	ticket   backoff.Ticket
	until    time.Time   // when the budget allows the retry
	stop     func() bool // ends the watch over ctx
	reported bool        // the budget was told how the retry ended
}

// AWS returns p as a retryer for the AWS SDK for Go v2. One retryer may serve
// any number of clients, which then share its budget:
//
//	retryer := plug.AWS(&policy)
//	cfg, err := config.LoadDefaultConfig(ctx,
//		config.WithRetryer(func() aws.Retryer { return retryer }))
//
// or, for one client, func(o *s3.Options) { o.Retryer = retryer }.
//
// Unlike the SDK's own retryer, it obeys Retry-After, within p.MaxRetryAfter.
// It gives up at once if the wait would pass the context's deadline. Its
// errors are final to the policies around the call. It retries errors that
// p.Classify, or [backoff.DefaultClassifier], knows to be transient, and 429
// with any code. It does not retry an unknown error. Nor does it retry what a
// [backoff.Policy] inside the transport gave up on: 3 attempts, not 3 times 4.
//
// MaxAttempts, Schedule, ByClass, Jitter, MaxDelay, MaxRetryAfter, Classify,
// Idempotency and Budget hold. A limit of ByClass ends the call in RetryDelay,
// by the attempt number that the SDK passes. The shape has no field for
// MaxElapsed and AttemptTimeout (use the context and the HTTP client), for
// Observer, and for a jitter's memory of the previous wait.
//
// A nil or invalid policy refuses every call before its first attempt. A policy
// without a limit of attempts refuses calls whose context has no deadline.
// Attempt numbers below 1 count as 1: the SDK counts retries from 1, or from 0
// with AWS_NEW_RETRIES_2026=true, and then the first step of the schedule is
// taken twice.
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
func AWS(p *backoff.Policy) *AWSRetryer {
	return &AWSRetryer{
		rule:    newRule(p),
		granted: make(map[<-chan struct{}][]*awsRetry),
		delayed: make(map[error]*awsRetry),
	}
}

// IsErrorRetryable implements aws.Retryer. It is false for nil. It is true
// even if the server asks for too long a wait: RetryDelay then ends the call
// with an error that says so to the policies around it.
func (r *AWSRetryer) IsErrorRetryable(err error) bool {
	return r.transient(awsHinted(err))
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
// delay would pass the deadline of the call, or if the server asks for more
// than MaxRetryAfter.
func (r *AWSRetryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	t := r.takeByError(err)
	if r.err != nil {
		return 0, r.err
	}
	wait, final := r.decide(max(attempt, 1), awsHinted(err))
	if final == nil && t != nil && passesDeadline(t.ctx, wait) {
		final = &backoff.Error{Name: r.policy.Name, Attempts: max(attempt, 1), Reason: backoff.ReasonDeadline, Last: err}
	}
	if final != nil && t != nil {
		r.report(t, backoff.Result{Outcome: backoff.OutcomeNotSent})
	}
	return wait, final
}

// decide returns the wait before a retry, or the error of a call that gets
// none.
func (r *AWSRetryer) decide(retry int, err error) (time.Duration, error) {
	if limit := r.attemptsAfter(r.class(err)); r.policy.ByClass != nil && limit > 0 && retry >= limit {
		return 0, &backoff.Error{Name: r.policy.Name, Attempts: retry, Reason: backoff.ReasonAttempts, Last: err}
	}
	if wait, again := r.waits.Decide(retry, err); again {
		return wait, nil
	}
	run := r.waits.Start(context.Background())
	run.Retry(err)
	final := run.Err()
	if gaveUp, ok := final.(*backoff.Error); ok {
		gaveUp.Attempts = retry
	}
	return 0, final
}

// passesDeadline reports whether a wait that begins now ends after the
// deadline.
func passesDeadline(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && wait > 0 && wait >= time.Until(deadline)
}

// GetInitialToken implements aws.Retryer. The SDK calls GetAttemptToken
// instead.
func (r *AWSRetryer) GetInitialToken() (release func(error) error) {
	if r.policy.Budget == nil {
		return releaseNothing
	}
	ticket, _, ok := r.policy.Budget.Reserve(backoff.Attempt{Number: 1, Kind: backoff.AttemptFirst})
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
	if t := r.takeByContext(ctx); t != nil {
		ticket, err := r.waitForBudget(ctx, t.ticket, time.Until(t.until))
		r.mu.Lock()
		t.ticket = ticket
		r.mu.Unlock()
		if err != nil { // the SDK releases no token then
			r.report(t, backoff.Result{Outcome: backoff.OutcomeNotSent})
		}
		return releaseNothing, err
	}
	b := r.policy.Budget
	if b == nil {
		return releaseNothing, nil
	}
	ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1, Kind: backoff.AttemptFirst, Paced: true})
	if !ok {
		return nil, r.overBudget()
	}
	if ticket, err = r.waitForBudget(ctx, ticket, wait); err != nil {
		b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
		return nil, err
	}
	return r.releaser(ctx, ticket), nil
}

// GetRetryToken implements aws.Retryer. It fails if the operation must not be
// sent again, or if the budget refuses.
func (r *AWSRetryer) GetRetryToken(ctx context.Context, err error) (release func(error) error, _ error) {
	if refused := r.refusal(ctx, r.mostAttempts()); refused != nil {
		return nil, refused
	}
	if !r.repeatable(ctx, err) {
		return nil, r.newFinalError("not idempotent (Policy.Idempotency)", nil)
	}
	t := &awsRetry{ctx: ctx, err: err}
	if b := r.policy.Budget; b != nil {
		ticket, wait, ok := b.Reserve(backoff.Attempt{
			Number: 2,
			Kind:   backoff.AttemptRetry,
			Class:  r.class(err),
			Wait:   time.Hour, // not known before RetryDelay; the budget says in Pace what is left of its own
			Paced:  true,
		})
		if !ok {
			return nil, r.overBudget()
		}
		t.ticket, t.until = ticket, time.Now().Add(wait)
	}
	r.add(t)
	return func(err error) error {
		r.report(t, r.result(ctx, err))
		return nil
	}, nil
}

// releaseNothing is the release of a token that no budget gave.
func releaseNothing(error) error { return nil }

// releaser returns a function that tells the budget, once, how a first attempt
// ended.
func (r *AWSRetryer) releaser(ctx context.Context, t backoff.Ticket) func(error) error {
	var reported atomic.Bool
	return func(err error) error {
		if reported.CompareAndSwap(false, true) {
			r.policy.Budget.Done(t, r.result(ctx, err))
		}
		return nil
	}
}

// waitForBudget waits as long as the budget wants, and then asks it to confirm
// the attempt. It returns the ticket that the budget wants back.
func (r *AWSRetryer) waitForBudget(ctx context.Context, t backoff.Ticket, wait time.Duration) (backoff.Ticket, error) {
	pacer, paced := r.policy.Budget.(interface {
		Pace(backoff.Ticket) (backoff.Ticket, time.Duration, bool)
	})
	for again := true; again; again = paced && wait > 0 {
		if passesDeadline(ctx, wait) {
			return t, r.newFinalError("the next wait would pass the deadline", context.DeadlineExceeded)
		}
		if !clock.Sleep(ctx, wait) {
			return t, ctx.Err()
		}
		if paced {
			granted := false
			if t, wait, granted = pacer.Pace(t); !granted {
				return t, r.overBudget()
			}
		}
	}
	if b, ok := r.policy.Budget.(interface{ Confirm(backoff.Ticket) bool }); ok && !b.Confirm(t) {
		return t, r.overBudget()
	}
	return t, nil
}

// result returns what a budget is told of an attempt.
func (r *AWSRetryer) result(ctx context.Context, err error) backoff.Result {
	result := backoff.Result{Outcome: r.outcome(ctx, err), Class: r.class(err)}
	if resp := awsResponse(err); resp != nil {
		result.RetryAfter, _ = retryafter.From(resp.Header, time.Now())
	}
	return result
}

// overBudget returns the error of a call that the budget refused.
func (r *AWSRetryer) overBudget() error {
	return r.newFinalError("budget refused (Policy.Budget)", backoff.ErrBudget)
}

// newFinalError returns an error that is final to the policies around the call.
func (r *AWSRetryer) newFinalError(text string, matched error) error {
	if r.policy.Name != "" {
		text = r.policy.Name + ": " + text
	}
	return backoff.Permanent(&finalError{"backoff: " + text, matched})
}

// finalError is an error of the retryer itself.
type finalError struct {
	text    string
	matched error
}

// Error implements error.
func (e *finalError) Error() string { return e.text }

// Unwrap returns the error that errors.Is matches.
func (e *finalError) Unwrap() error { return e.matched }

// add keeps a retry that was granted until it begins, or until its context
// ends.
func (r *AWSRetryer) add(t *awsRetry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := t.ctx.Done()
	r.granted[done] = append(r.granted[done], t)
	r.grantedCount.Add(1)
	if isMapKey(t.err) {
		if _, shared := r.delayed[t.err]; shared {
			r.delayed[t.err] = nil
		} else {
			r.delayed[t.err] = t
		}
	}
	if done != nil {
		t.stop = context.AfterFunc(t.ctx, func() { r.expire(t) })
	}
}

// takeByError returns the retry whose delay is asked for; nil if it is not
// known.
func (r *AWSRetryer) takeByError(err error) *awsRetry {
	if !isMapKey(err) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.delayed[err]
	delete(r.delayed, err)
	return t
}

// takeByContext returns the retry that begins with an attempt under ctx; nil if
// the attempt is a first one.
func (r *AWSRetryer) takeByContext(ctx context.Context) *awsRetry {
	if r.grantedCount.Load() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if retries := r.granted[ctx.Done()]; len(retries) > 0 {
		r.remove(retries[0])
		return retries[0]
	}
	return nil
}

// expire ends a retry whose context ended before the retry began.
func (r *AWSRetryer) expire(t *awsRetry) {
	r.mu.Lock()
	begun := !r.remove(t)
	r.mu.Unlock()
	if !begun {
		r.report(t, backoff.Result{Outcome: backoff.OutcomeNotSent})
	}
}

// report tells the budget, once, how a retry ended.
func (r *AWSRetryer) report(t *awsRetry, result backoff.Result) {
	r.mu.Lock()
	reported, ticket := t.reported, t.ticket
	t.reported = true
	r.remove(t)
	stop := t.stop
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
	if !reported && r.policy.Budget != nil {
		r.policy.Budget.Done(ticket, result)
	}
}

// remove forgets a retry. It reports whether the retry had not begun.
func (r *AWSRetryer) remove(t *awsRetry) bool {
	if isMapKey(t.err) && r.delayed[t.err] == t {
		delete(r.delayed, t.err)
	}
	done := t.ctx.Done()
	for i, other := range r.granted[done] {
		if other != t {
			continue
		}
		r.granted[done] = append(r.granted[done][:i:i], r.granted[done][i+1:]...)
		if len(r.granted[done]) == 0 {
			delete(r.granted, done)
		}
		r.grantedCount.Add(-1)
		return true
	}
	return false
}

// isMapKey reports whether err may be the key of a map.
func isMapKey(err error) bool {
	return err != nil && reflect.ValueOf(err).Comparable()
}

// awsHinted marks an error of the SDK with the Retry-After of its response.
func awsHinted(err error) error {
	resp := awsResponse(err)
	if resp == nil {
		return err
	}
	return hinted(err, resp.Header)
}

// awsResponse finds the response behind an error of the SDK. The ResponseError
// of the SDK has a method HTTPResponse. Its result is a struct around an
// *http.Response, of a type that cannot be named here.
func awsResponse(err error) *http.Response {
	for ; err != nil; err = errors.Unwrap(err) {
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
