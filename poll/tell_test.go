package poll_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/poll"
)

// A ledger is a budget that notes what it is asked, and what it hears.
type ledger struct {
	backoff.BudgetDefaults

	notes   []string
	asked   []time.Time
	refuse  int           // the n-th Reserve, from 1
	wait    time.Duration // that it asks for
	paced   int
	refuses int // the n-th Confirm, from 1
	confirm int // how often it was called
}

func (l *ledger) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	kind := "retry"
	if a.First() {
		kind = "first"
	}
	l.notes = append(l.notes, fmt.Sprint(kind, " ", a.Number))
	l.asked = append(l.asked, a.Now)
	return backoff.Ticket{Word: uint64(len(l.asked))}, l.wait, len(l.asked) != l.refuse
}

func (l *ledger) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	l.paced++
	return t, 0, true
}

func (l *ledger) Confirm(backoff.Ticket) bool {
	l.confirm++
	return l.confirm != l.refuses
}

func (l *ledger) Done(t backoff.Ticket, r backoff.Result) {
	if t != (backoff.Ticket{Word: uint64(len(l.asked))}) {
		l.notes = append(l.notes, "a ticket that was not given")
	}
	l.notes = append(l.notes, r.String())
}

func TestToABudgetNotYetIsASuccessAndOnlyACheckAfterAFailedOneARetry(t *testing.T) {
	throttled := check{err: backoff.OfClass(errDown, backoff.ClassThrottled)}
	for want, checks := range map[string][]check{
		"first 1, success": {done},
		"first 1, success, first 1, success, first 1, success":                    {notYet, {err: backoff.RetryAfter(poll.ErrNotYet, time.Second)}, done},
		"first 1, failed, retry 2, throttled, retry 3, success, first 1, success": {down, throttled, notYet, done},
		"first 1, success, first 1, permanent":                                    {notYet, {err: backoff.Permanent(errDown)}},
		"first 1, permanent":                                                      {{done: true, err: errFailed}},
		"first 1, timeout, retry 2, success":                                      {{takes: time.Minute}, done},
		"first 1, failed, retry 2, failed, retry 3, failed, retry 4, failed":      {down},
		"first 1, failed, retry 2, success ":                                      {{err: errGone}, done},
	} {
		b := &ledger{}
		p := every(time.Hour)
		p.Budget, p.AttemptTimeout = b, 30*time.Second
		recorded(t, p, checks...)
		require.Equal(t, strings.TrimSpace(want), strings.Join(b.notes, ", "))
	}
}

func TestABudgetIsAskedWhenTheIntervalIsOver(t *testing.T) {
	b := &ledger{}
	p := every(15 * time.Second)
	p.Budget = b
	r := recorded(t, p, notYet)
	require.Equal(t, seconds(0, 10, 15), r.at)
	require.Len(t, b.asked, 3)
	require.Equal(t, 10*time.Second, b.asked[1].Sub(b.asked[0]))
	require.Equal(t, 5*time.Second, b.asked[2].Sub(b.asked[1]))

	b = &ledger{wait: 3 * time.Second}
	p.Budget, p.MaxElapsed = b, 20*time.Second
	r = recorded(t, p, notYet, done)
	require.Equal(t, seconds(3, 16), r.at, "what the budget asks for comes on top")
	require.Equal(t, 2, b.paced, "and it paces what waits for it")
	require.Equal(t, []string{"first 1", "success", "first 1", "success"}, b.notes)

	r = recorded(t, p, notYet)
	require.Equal(t, seconds(3, 16), r.at)
	require.Equal(t, backoff.ReasonElapsed, gaveUp(t, r.err).Reason)
}

// cancelled polls until it is cancelled in the wait after the first check, which
// ends at once.
func cancelled(t *testing.T, p backoff.Policy, c check) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		began := time.Now()
		err := poll.Until(ctx, p, func(context.Context) (bool, error) { return c.done, c.err })
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, c == notYet, errors.Is(err, poll.ErrNotYet))
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

func TestATicketIsGivenBackOnce(t *testing.T) {
	b := &ledger{}
	p := every(-1)
	p.Budget = b
	cancelled(t, p, notYet)
	require.Equal(t, []string{"first 1", "success"}, b.notes, "cancelled before the budget was asked again")

	b.notes, b.asked = nil, nil
	cancelled(t, p, down)
	require.Equal(t, []string{"first 1", "failed", "retry 2", "not sent"}, b.notes)

	for want, checks := range map[string]int{"first 1, not sent": 0, "first 1, success, first 1, not sent": 1} {
		b := &ledger{refuses: checks + 1}
		p.Budget = b
		r := recorded(t, p, notYet)
		require.ErrorIs(t, r.err, backoff.ErrBudget)
		require.Equal(t, want, strings.Join(b.notes, ", "))
	}
}

func TestARefusalOfTheBudgetEndsThePoll(t *testing.T) {
	for refuse, checks := range map[int][]check{1: {done}, 2: {notYet, done}, 3: {notYet, down, done}} {
		b := &ledger{refuse: refuse}
		p := every(time.Hour)
		p.Budget = b
		r := recorded(t, p, checks...)
		require.ErrorIs(t, r.err, backoff.ErrBudget)
		require.Len(t, r.at, refuse-1)
	}
}

func TestARetryBudgetDoesNotEndALongPoll(t *testing.T) {
	b := &backoff.RetryBudget{}
	p := every(-1)
	p.Budget = b
	r := recorded(t, p, append(append(many(notYet, 1000), down), done)...)
	require.NoError(t, r.err)
}

// told polls, and returns what an observer hears.
func told(t *testing.T, p backoff.Policy, checks ...check) []string {
	t.Helper()
	var all []string
	p.Observer = func(_ context.Context, e backoff.Event) {
		require.Equal(t, "job", e.Name)
		text := fmt.Sprint(e.Kind, " ", e.Attempt, "/", e.MaxAttempts)
		if e.Kind != backoff.EventSuccess {
			text += fmt.Sprintf(" %v", e.Err)
		} else {
			require.NoError(t, e.Err)
		}
		if e.Kind == backoff.EventGiveUp || e.Kind == backoff.EventRefused {
			text += fmt.Sprintf(" (%v)", e.Reason)
		}
		if e.Attempt == 0 {
			require.Equal(t, backoff.ClassUnknown, e.Class)
		}
		if e.Waiting {
			text += " waiting"
		}
		if e.Slept > 0 {
			text += fmt.Sprintf(" slept %v", e.Slept)
		}
		all = append(all, text)
	}
	recorded(t, p, checks...)
	return all
}

func TestAnObserverHearsOfEachCheckAsOfACallAndOnceOfThePollsFailure(t *testing.T) {
	p := every(25 * time.Second)
	require.Equal(t, []string{"success 1/4", "success 1/4"}, told(t, p, notYet, done))
	require.Equal(t, []string{"success 1/4", "retry 1/4 down", "retry 2/4 down slept 10s", "success 3/4 slept 5s", "give up 0/4 not yet (elapsed)"},
		told(t, p, notYet, down, down, notYet))
	require.Equal(t, []string{"success 1/4", "give up 1/4 job failed (permanent)"}, told(t, p, notYet, check{done: true, err: errFailed}))
	require.Equal(t, []string{"success 1/4", "give up 1/4 down (permanent)"}, told(t, p, notYet, check{err: backoff.Permanent(errDown)}))
	require.Equal(t, []string{"success 1/4", "success 1/4", "success 1/4", "give up 1/4 down (elapsed)"}, told(t, p, notYet, notYet, notYet, down))
	p.MaxAttempts = 2
	require.Equal(t, []string{"success 1/2", "retry 1/2 down", "give up 2/2 down (attempts) slept 10s"}, told(t, p, notYet, down))
	p.MaxAttempts = -1
	require.Equal(t, []string{"success 1/-1", "give up 0/-1 not yet (retry after)"},
		told(t, p, check{err: backoff.RetryAfter(poll.ErrNotYet, time.Hour)}))
}

func TestAnObserverHearsThatAPollWasCancelled(t *testing.T) {
	for want, l := range map[string]check{
		"success 1, give up 0":       notYet,
		"retry 1, give up 1 waiting": down,
	} {
		var all []string
		p := every(time.Hour)
		p.Observer = func(_ context.Context, e backoff.Event) {
			text := fmt.Sprint(e.Kind, " ", e.Attempt)
			if e.Waiting {
				text += " waiting"
			}
			all = append(all, text)
		}
		cancelled(t, p, l)
		require.Equal(t, want, strings.Join(all, ", "))
	}
}

func TestAnObserverThatPanicsDoesNotEndThePoll(t *testing.T) {
	p := every(time.Hour)
	calls := 0
	p.Observer = func(context.Context, backoff.Event) {
		calls++
		panic("an observer of a test of package poll")
	}
	require.NoError(t, recorded(t, p, notYet, down, done).err)
	require.Equal(t, 3, calls)
}

func TestToABreakerNotYetIsASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, answer := range map[string]error{"nil": nil, "with a hint": backoff.RetryAfter(poll.ErrNotYet, time.Second)} {
			b := &backoff.Breaker{ConsecutiveFailures: 2}
			checks := 0
			require.NoError(t, poll.Until(t.Context(), every(time.Hour), func(ctx context.Context) (bool, error) {
				checks++
				return checks == 20, b.Do(ctx, func(context.Context) error {
					if checks == 20 {
						return nil
					}
					return answer
				})
			}), name)
			require.Equal(t, backoff.BreakerClosed, b.State())
		}
		around := &backoff.Breaker{ConsecutiveFailures: 2}
		for range 5 {
			require.ErrorIs(t, around.Do(t.Context(), func(ctx context.Context) error {
				return poll.Until(ctx, every(time.Second), func(context.Context) (bool, error) { return false, nil })
			}), poll.ErrNotYet)
		}
		require.Equal(t, backoff.BreakerClosed, around.State(), "a poll that ran out has had answers")
	})
}

func TestToAServiceACheckIsACallOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &backoff.RetryBudget{Window: time.Hour}
		s := guard.Service{Budget: budget}
		checks := 0
		require.NoError(t, poll.Until(t.Context(), every(time.Hour), func(ctx context.Context) (done bool, err error) {
			err = s.Do(ctx, backoff.Policy{MaxAttempts: 1}, func(context.Context) error {
				if checks++; checks == 6 {
					return errDown
				}
				done = checks == 10
				return nil
			})
			return done, err
		}))
		require.Equal(t, 10, checks)
		require.EqualValues(t, 9, budget.Stats().Successes, "not yet among them")
		require.Zero(t, budget.Stats().Retries)
	})
}

func TestAPollWaitsForAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Breaker{ConsecutiveFailures: 2, OpenFor: backoff.Constant(40 * time.Second)}
		var kinds []string
		p := every(-1)
		p.Observer = func(_ context.Context, e backoff.Event) { kinds = append(kinds, fmt.Sprint(e.Kind, " ", e.Attempt)) }
		began, checks := time.Now(), 0
		require.NoError(t, poll.Until(t.Context(), p, func(ctx context.Context) (bool, error) {
			return true, nil
		}))
		kinds = nil
		err := poll.Until(t.Context(), p, func(ctx context.Context) (done bool, err error) {
			err = b.Do(ctx, func(context.Context) error {
				if checks++; checks == 2 || checks == 3 {
					return errDown
				}
				done = checks == 5
				return nil
			})
			return done, err
		})
		require.NoError(t, err)
		require.Equal(t, 5, checks)
		require.Greater(t, time.Since(began), time.Minute)
		require.Equal(t, []string{"success 1", "retry 1", "retry 2", "refused 2", "success 3", "success 1"}, kinds)
	})
}
