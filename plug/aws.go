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
)

// AWSRetryer is a policy in the shape of aws.RetryerV2, and so of aws.Retryer and of the
// Retryer of Alibaba's OSS client. See [AWS].
type AWSRetryer struct {
	rule

	pending atomic.Int64 // the retries in due

	mu      sync.Mutex
	due     map[<-chan struct{}][]*awsRetry // granted, not begun; by the context's Done
	waiting map[error]*awsRetry             // granted, RetryDelay not asked; nil where two share an error
}

// awsRetry is a retry that was granted.
type awsRetry struct {
	ctx    context.Context // of the attempt that failed
	err    error           // that it failed with
	ticket backoff.Ticket
	until  time.Time // when the budget allows it
	stop   func() bool
	over   bool // the budget was told
}

// AWS returns p as a retryer for the AWS SDK for Go v2. One may serve any number of
// clients, which then share its budget:
//
//	retryer := plug.AWS(&policy)
//	cfg, err := config.LoadDefaultConfig(ctx, config.WithRetryer(func() aws.Retryer { return retryer }))
//
// or, for one client, func(o *s3.Options) { o.Retryer = retryer }.
//
// Unlike the SDK's own, it obeys Retry-After, within p.MaxRetryAfter, and gives up at once
// where the wait would pass the context's deadline; its errors are then final to the policies
// around it. It retries what p.Classify, or [backoff.DefaultClassifier], knows to be
// transient, and 429 whatever the code; an error of which nothing is known is not retried. What
// a [backoff.Policy] inside the transport gave up on is not either: 3 attempts, not 3 times 4.
//
// MaxAttempts, Schedule, Jitter, MaxDelay, MaxRetryAfter, Classify, Idempotency and Budget hold. The
// shape has no place for MaxElapsed and AttemptTimeout (use the context and the
// HTTP client), nor for Observer and a jitter's memory of the wait before.
//
// A nil or invalid policy refuses every call before its first attempt. So does one without a limit of attempts
// a call whose context has no deadline. Attempt numbers below 1 count as 1: the SDK counts
// retries from 1, or from 0 with AWS_NEW_RETRIES_2026=true, where the schedule's first
// step is so taken twice.
//
// The Budget is asked before each attempt, waits included, and told after it. The SDK keeps
// some of its tokens: the one of a call that is cancelled in a pause, and from 2026 that of a
// retry's attempt. So a retry is accounted for by its retry token alone, which the context's
// end gives back, and its attempt is told from a first one by the context of the call.
// Where calls that run at the same time share a context, one may pass for the other; their sum is right.
//
// A retryer is safe for concurrent use; p is copied. While calls succeed it takes no lock.
func AWS(p *backoff.Policy) *AWSRetryer {
	return &AWSRetryer{
		rule:    ruleOf(p),
		due:     make(map[<-chan struct{}][]*awsRetry),
		waiting: make(map[error]*awsRetry),
	}
}

// IsErrorRetryable implements aws.Retryer. It is false for nil.
func (r *AWSRetryer) IsErrorRetryable(err error) bool {
	return r.retryable(awsHinted(err))
}

// MaxAttempts implements aws.Retryer, in which 0 means no limit.
func (r *AWSRetryer) MaxAttempts() int { return max(0, r.attempts()) }

// RetryDelay implements aws.Retryer. It fails, with a [*backoff.Error], where the delay
// would pass the deadline of the call, or the server asks for more than MaxRetryAfter.
func (r *AWSRetryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	t := r.look(err)
	if r.err != nil {
		return 0, r.err
	}
	wait, again := r.waits.Decide(max(attempt, 1), awsHinted(err))
	gave := &backoff.Error{Name: r.policy.Name, Attempts: max(attempt, 1), Last: err}
	switch {
	case !again:
		gave.Reason = backoff.ReasonRetryAfter
		if !r.policy.Retryable(err) {
			gave.Reason = backoff.ReasonPermanent
		}
	case t == nil || !t.passesDeadline(wait):
		return wait, nil
	default:
		gave.Reason = backoff.ReasonDeadline
	}
	if t != nil {
		r.settle(t, backoff.OutcomeNotSent)
	}
	return 0, gave
}

func (t *awsRetry) passesDeadline(wait time.Duration) bool {
	deadline, ok := t.ctx.Deadline()
	return ok && wait > 0 && wait >= time.Until(deadline)
}

// GetInitialToken implements aws.Retryer. The SDK calls GetAttemptToken instead.
func (r *AWSRetryer) GetInitialToken() (release func(error) error) {
	if r.policy.Budget == nil {
		return released
	}
	ticket, _, ok := r.policy.Budget.Reserve(backoff.Attempt{Number: 1, Kind: backoff.AttemptFirst})
	if !ok {
		return released
	}
	return r.releaser(context.Background(), ticket)
}

// GetAttemptToken implements aws.RetryerV2. It blocks for as long as the budget wants the
// attempt to wait, or until ctx ends.
func (r *AWSRetryer) GetAttemptToken(ctx context.Context) (release func(error) error, err error) {
	if err := r.refusal(ctx); err != nil {
		return nil, err
	}
	if t := r.claim(ctx); t != nil {
		return released, r.depart(ctx, t.ticket, time.Until(t.until))
	}
	b := r.policy.Budget
	if b == nil {
		return released, nil
	}
	ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1, Kind: backoff.AttemptFirst})
	if !ok {
		return nil, r.overBudget()
	}
	if err := r.depart(ctx, ticket, wait); err != nil {
		b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
		return nil, err
	}
	return r.releaser(ctx, ticket), nil
}

// GetRetryToken implements aws.Retryer. It fails where the operation must not be sent again,
// and where the budget refuses.
func (r *AWSRetryer) GetRetryToken(ctx context.Context, err error) (release func(error) error, _ error) {
	if refused := r.refusal(ctx); refused != nil {
		return nil, refused
	}
	if !r.repeatable(ctx, err) {
		return nil, r.saying("not idempotent, not sent again", nil)
	}
	t := &awsRetry{ctx: ctx, err: err}
	if b := r.policy.Budget; b != nil {
		ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 2, Kind: backoff.AttemptRetry, Class: r.class(err)})
		if !ok {
			return nil, r.overBudget()
		}
		t.ticket, t.until = ticket, time.Now().Add(wait)
	}
	r.expect(t)
	return func(err error) error {
		r.settle(t, r.outcome(ctx, err))
		return nil
	}, nil
}

func released(error) error { return nil }

// releaser tells the budget, once, how a first attempt ended.
func (r *AWSRetryer) releaser(ctx context.Context, t backoff.Ticket) func(error) error {
	var told atomic.Bool
	return func(err error) error {
		if told.CompareAndSwap(false, true) {
			r.policy.Budget.Done(t, backoff.Result{Outcome: r.outcome(ctx, err), Class: r.class(err)})
		}
		return nil
	}
}

// depart waits as long as the budget wants, and asks it once more.
func (r *AWSRetryer) depart(ctx context.Context, t backoff.Ticket, wait time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && wait > 0 && wait >= time.Until(deadline) {
		return r.saying("the budget's wait of "+wait.String()+" would pass the deadline", context.DeadlineExceeded)
	}
	if err := rest(ctx, wait); err != nil {
		return err
	}
	if b, ok := r.policy.Budget.(backoff.Confirmer); ok && !b.Confirm(t) {
		return r.overBudget()
	}
	return nil
}

func (r *AWSRetryer) overBudget() error {
	return r.saying("retry budget refused", backoff.ErrBudget)
}

// saying returns an error that is final to the policies around the call.
func (r *AWSRetryer) saying(text string, matched error) error {
	if r.policy.Name != "" {
		text = r.policy.Name + ": " + text
	}
	return backoff.Permanent(&refusal{"backoff: " + text, matched})
}

type refusal struct {
	text    string
	matched error
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.matched }

// expect notes a retry that was granted, until it begins, or its context ends.
func (r *AWSRetryer) expect(t *awsRetry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := t.ctx.Done()
	r.due[done] = append(r.due[done], t)
	r.pending.Add(1)
	if identifies(t.err) {
		if _, shared := r.waiting[t.err]; shared {
			r.waiting[t.err] = nil
		} else {
			r.waiting[t.err] = t
		}
	}
	if done != nil {
		t.stop = context.AfterFunc(t.ctx, func() { r.lapse(t) })
	}
}

// look finds the retry whose delay is asked for.
func (r *AWSRetryer) look(err error) *awsRetry {
	if !identifies(err) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.waiting[err]
	delete(r.waiting, err)
	return t
}

// claim finds the retry that begins with an attempt under ctx.
func (r *AWSRetryer) claim(ctx context.Context) *awsRetry {
	if r.pending.Load() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if due := r.due[ctx.Done()]; len(due) > 0 {
		r.forget(due[0])
		return due[0]
	}
	return nil
}

// lapse ends a retry whose context ended before it began.
func (r *AWSRetryer) lapse(t *awsRetry) {
	r.mu.Lock()
	slept := r.forget(t)
	r.mu.Unlock()
	if slept {
		r.settle(t, backoff.OutcomeNotSent)
	}
}

// settle tells the budget, once, what became of a retry.
func (r *AWSRetryer) settle(t *awsRetry, o backoff.Outcome) {
	r.mu.Lock()
	over := t.over
	t.over = true
	r.forget(t)
	stop := t.stop
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
	if !over && r.policy.Budget != nil {
		r.policy.Budget.Done(t.ticket, backoff.Result{Outcome: o})
	}
}

// forget takes a retry off the lists, and reports whether it was still due.
func (r *AWSRetryer) forget(t *awsRetry) bool {
	if identifies(t.err) && r.waiting[t.err] == t {
		delete(r.waiting, t.err)
	}
	done := t.ctx.Done()
	for i, other := range r.due[done] {
		if other != t {
			continue
		}
		r.due[done] = append(r.due[done][:i:i], r.due[done][i+1:]...)
		if len(r.due[done]) == 0 {
			delete(r.due, done)
		}
		r.pending.Add(-1)
		return true
	}
	return false
}

// identifies reports whether err may be the key of a map.
func identifies(err error) bool {
	return err != nil && reflect.ValueOf(err).Comparable()
}

// awsHinted marks an error of the SDK with the hint of its answer.
func awsHinted(err error) error {
	resp := awsResponse(err)
	if resp == nil {
		return err
	}
	return hinted(err, resp.Header)
}

// awsResponse finds the answer behind an error of the SDK: its ResponseError has a method
// HTTPResponse, whose result, a struct around an *http.Response, is of a type that cannot be named here.
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
