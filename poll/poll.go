package poll

import (
	"context"

	"github.com/gobackoff/backoff"
)

// ErrNotYet is in the error of a poll whose last look said "not yet". errors.Is
// finds it, and so tells something that took too long from looks that failed.
//
// A look that was told when to come back returns it with that time:
//
//	return false, backoff.RetryAfter(poll.ErrNotYet, 30*time.Second)
//
// It is the same as (false, nil) but for the time. Breakers count it as an
// answer of the service.
var ErrNotYet error = notYet{}

// notYet is the type of ErrNotYet.
type notYet struct{}

func (notYet) Error() string { return "not yet" }

// NonRetriable makes it an answer to breakers, and to policies a result that
// they do not retry.
func (notYet) NonRetriable() {}

// Until calls look until look says that it is done, a limit of the policy is
// reached, or ctx ends. It returns nil when look is done without an error. It
// looks at once, and blocks until the poll is over.
//
// What look returns means:
//
//   - (true, nil): the end. It counts even if ctx has ended meanwhile.
//   - (true, err): the end, with err as it is, such as a job that has failed.
//   - (false, nil): not yet. [ErrNotYet] says so, too.
//   - (false, err): the look failed. It is retried, unless look marked err as
//     [backoff.Permanent] or ClassOverloaded, or the policy's own Classify says
//     one of the two: then the poll returns err as [backoff.Policy.Do] would.
//     Nothing else is final, as under [backoff.Policy.Supervise]: neither a name
//     that does not exist, nor what a policy in look gave up on.
//
// The policy says how to look:
//
//   - Schedule, Jitter and MaxDelay space the looks. The wait begins when a look
//     has ended, however long it took. The n-th wait is that of the n-th retry,
//     whether the look before it failed or not. A nil Jitter is
//     [backoff.EqualJitter] here: a wait is never shorter than half the delay. A
//     delay of 0 looks again at once, for a look that blocks until there is news.
//   - MaxElapsed limits the time from the start of the poll to the start of its
//     last look. That look is made exactly then, unless a look is under way. A
//     negative MaxElapsed means no limit. 0 means that the deadline of ctx is
//     the limit. If ctx has none, Until returns an error that names MaxElapsed.
//   - A wait that would reach the deadline of ctx is not begun: the poll ends at
//     once. To look until shortly before the deadline, set MaxElapsed.
//   - MaxAttempts limits the failed looks in a row: 0 means 4, and 1 that the
//     first one ends the poll. A negative number means no limit. "Not yet" and
//     the refusal of a breaker do not count. ByClass holds for what follows a
//     failed look, and its MaxAttempts also counts failed looks in a row.
//   - AttemptTimeout limits each look, also the last one. MaxElapsed does not
//     end a look. Each look that fails moves AttemptTimeoutSchedule on, and
//     "not yet" starts it again.
//   - A server that asks for a wait, by [backoff.RetryAfter] on the error of a
//     look or on ErrNotYet, moves the next look. If the wait does not fit into
//     MaxElapsed, MaxRetryAfter or the deadline, the poll ends at once.
//   - Budget hears of a success when a look says "not yet", and not of the time
//     when to come back, which is that of one job. It is asked for each look,
//     as for the first attempt of a call, and for a look after a failed one as
//     for a retry. If it refuses, the poll ends. The Window of a
//     [backoff.RetryBudget] should hold several looks.
//   - Observer hears of each look as of a call: of EventSuccess when the look
//     was done or said "not yet", of EventRetry when it failed. When the poll
//     fails, it hears of EventGiveUp once. Then Event.Attempt is the number of
//     failed looks in a row, which is 0 after "not yet".
//   - The poll waits for an open [backoff.Breaker] in look, as with WaitOpen.
//     Idempotency, ShortenLastWait and ResetAfter are ignored: a look changes
//     nothing, and may be repeated.
//
// A poll that gave up returns a [*backoff.Error]. Attempts is the number of
// looks, Reason why the poll ended, and Last what the last look saw: its error,
// or ErrNotYet. If the end of ctx cut the last look, that is what the look
// before saw. Policies around the poll do not retry such an error. An invalid
// policy is refused with the error of [backoff.Policy.Validate], before the
// first look. If ctx has ended, Until does not look.
//
// A look that says "not yet" costs no allocation, unless the policy has an
// AttemptTimeout or an Observer. Until is safe for concurrent use. A panic in
// look passes through.
func Until(ctx context.Context, policy backoff.Policy, look func(ctx context.Context) (done bool, err error)) error {
	return until(ctx, policy, look, func() {})
}

// Value is [Until] for a look that also returns what it saw. Value returns what
// the last look saw that answered, also beside an error: how far a job was, for
// instance, when the time was over. Looks that failed and were retried have not
// answered.
func Value[T any](ctx context.Context, policy backoff.Policy, look func(ctx context.Context) (v T, done bool, err error)) (T, error) {
	var seen, value T
	err := until(ctx, policy, func(ctx context.Context) (done bool, err error) {
		seen, done, err = look(ctx)
		return done, err
	}, func() { value = seen })
	return value, err
}
