package poll

import (
	"context"

	"github.com/gobackoff/backoff"
)

// ErrNotYet is in the error of a poll whose last check said "not yet".
// errors.Is finds it, and so distinguishes a poll that took too long from
// checks that failed.
//
// A check that was told when to check again returns it with that time:
//
//	return false, backoff.RetryAfter(poll.ErrNotYet, 30*time.Second)
//
// It is the same as (false, nil), except for the time. Breakers count it as a
// success of the service. To begin with a wait, let the first check return
//
//	return false, backoff.Pushback(poll.ErrNotYet, time.Minute)
//
// without asking the service. The schedule begins after that.
var ErrNotYet error = notYet{}

// notYet is the type of ErrNotYet.
type notYet struct{}

func (notYet) Error() string { return "not yet" }

// NonRetriable makes it a success to breakers, and to policies a result that
// they do not retry.
func (notYet) NonRetriable() {}

// Until calls check until check says that it is done, a limit of the policy is
// reached, or ctx ends. It returns nil when check is done without an error. It
// checks at once, and blocks until the poll is over.
//
// What check returns means:
//
//   - (true, nil): the end. It counts even if ctx has ended meanwhile.
//   - (true, err): the end, with err as it is, such as a job that has failed.
//   - (false, nil): not yet. [ErrNotYet] says so, too.
//   - (false, err): the check failed. It is retried, unless check marked err
//     as [backoff.Permanent] or ClassOverloaded, or the policy's own Classify
//     says one of the two: then the poll returns err as [backoff.Policy.Do]
//     would. Nothing else is permanent, as under a [backoff.Supervisor]:
//     neither a name that does not exist, nor what a policy in check gave up
//     on.
//
// The fields of the policy mean what they mean to a call of [backoff.Policy.Do]. A
// check is such a call: one that fails is attempted again, and one that answers,
// if only "not yet", has succeeded. What a poll adds:
//
//   - Schedule, Jitter and MaxDelay space all checks. The wait begins when a
//     check has ended, however long it took. The n-th wait is that of the n-th
//     retry, whether the check before it failed or not. Half of a delay is fixed, and
//     Jitter spreads the other half, so that no check follows at once. A delay of 0 is
//     for a check that blocks until there is news: it means 100 ms, less the time that
//     the check took.
//   - MaxElapsed limits the time from the start of the poll to the start of
//     its last check. That check is made exactly then, unless a check is
//     running. If neither MaxElapsed nor a deadline of ctx would end the poll,
//     Until refuses it, with an error that names MaxElapsed. A negative
//     MaxElapsed asks for a poll without an end.
//   - A wait that would reach the deadline of ctx is not begun: the poll ends
//     at once. To check until shortly before the deadline, set MaxElapsed.
//   - MaxAttempts limits the checks in a row that may fail. "Not yet" and the
//     refusal of a breaker do not count. The Schedule and MaxAttempts of ByClass apply
//     after a failed check, and also count failed checks in a row.
//   - AttemptTimeout limits each check, the last one included. MaxElapsed does
//     not end a check. Each check that fails moves AttemptTimeoutSchedule on,
//     and "not yet" restarts it.
//   - A server that asks for a wait, by [backoff.RetryAfter] on the error of a
//     check or on ErrNotYet, moves the next check. If the wait does not fit
//     into MaxElapsed, MaxRetryAfter or the deadline, the poll ends at once.
//     [backoff.Pushback] is exact from 100 ms on, so that no server can
//     make the poll spin.
//   - Budget gets a success when a check says "not yet". It does not get the
//     time of the next check, which belongs to one job. It is asked for each
//     check, as for the first attempt of a call, and for a check after a
//     failed one as for a retry. If it refuses, the poll ends. The Window of a
//     [backoff.RetryBudget] should hold several checks.
//   - Observer treats each check as a call: it gets EventSuccess when the
//     check was done or said "not yet", and EventRetry when it failed. When
//     the poll fails, it gets EventGiveUp once. Then Event.Attempt is the
//     number of failed checks in a row, which is 0 after "not yet".
//   - The poll waits for an open [backoff.Breaker] in check. Idempotency is
//     ignored: a check changes nothing, and may be repeated.
//
// A poll that gave up returns a [*backoff.Error]. Attempts is the number of
// checks, Reason why the poll ended, and Last the result of the last check:
// its error, or ErrNotYet. If ctx ended during the last check, it is the result of the
// one before. Policies around the poll do not retry such an error. An invalid policy is
// refused with the error of [backoff.Policy.Validate], before the first check. If ctx has
// ended, Until does not check.
//
// A check that says "not yet" costs no allocation, unless the policy has an
// AttemptTimeout or an Observer. Until is safe for concurrent use. A panic in
// check passes through.
func Until(ctx context.Context, policy backoff.Policy, check func(ctx context.Context) (done bool, err error)) error {
	return until(ctx, policy, check, func() {})
}

// Value is [Until] for a check that also returns a value. Value returns that
// of the last check that did not fail, also with an error: how far a job was,
// for instance, when the time expired. A check that failed and was retried
// does not count.
func Value[T any](ctx context.Context, policy backoff.Policy, check func(ctx context.Context) (v T, done bool, err error)) (T, error) {
	var seen, value T
	err := until(ctx, policy, func(ctx context.Context) (done bool, err error) {
		seen, done, err = check(ctx)
		return done, err
	}, func() { value = seen })
	return value, err
}
