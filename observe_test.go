package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// What can be said of a call is in its events.
func TestAnEventCarriesWhatIsKnown(t *testing.T) {
	policy := backoff.Policy{
		Name: "fetch", MaxAttempts: 3, MaxElapsed: time.Hour, Rand: fixed(0.5),
		Schedule: backoff.Linear{Initial: 2 * time.Second},
	}
	hinted := backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassThrottled), time.Minute)
	events := watch(&policy)

	_, err := attempts(t, policy, errBoom, hinted, errFinal)
	require.ErrorIs(t, err, backoff.ErrExhausted)

	const s = time.Second
	require.Equal(t, []backoff.Event{
		{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1, MaxAttempts: 3, Err: errBoom, Delay: 2 * s, Wait: s},
		{Kind: backoff.EventRetry, Name: "fetch", Attempt: 2, MaxAttempts: 3, Err: hinted, Class: backoff.ClassThrottled, Delay: 4 * s, Wait: 63 * s, Slept: s, RetryAfter: 60 * s, Elapsed: s},
		{Kind: backoff.EventGiveUp, Name: "fetch", Attempt: 3, MaxAttempts: 3, Err: errFinal, Reason: backoff.ReasonAttempts, Slept: 63 * s, Elapsed: 64 * s},
	}, *events)
}

func TestASuccessIsAnEventToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &backoff.Policy{Name: "fetch", MaxAttempts: -1, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		events := watch(policy)
		require.NoError(t, policy.Do(t.Context(), returning(nil).do))
		require.NoError(t, policy.Do(t.Context(), returning(errBoom, nil).do))
		require.Equal(t, []backoff.Event{
			{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1, MaxAttempts: -1},
			{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1, MaxAttempts: -1, Err: errBoom, Delay: time.Second, Wait: time.Second},
			{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 2, MaxAttempts: -1, Slept: time.Second, Elapsed: time.Second},
		}, *events)
	})
}

// What a layer put into the context or the error of a call,
// its observer can read.
func TestTheObserverGetsTheContextOfTheCall(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "request 7")
	heard := 0
	policy := backoff.Policy{Schedule: backoff.Constant(0), AttemptTimeout: time.Hour, Observer: func(got context.Context, _ backoff.Event) {
		heard++
		require.Equal(t, "request 7", got.Value(key{}))
		require.NoError(t, got.Err())
	}}
	require.Error(t, policy.Do(ctx, returning(errBoom).do))
	require.Equal(t, 4, heard)
}

// The reading of the class does not hang on whether the call goes on.
func TestTheLastEventTellsTheClass(t *testing.T) {
	for _, class := range []backoff.Class{backoff.ClassNotSent, backoff.ClassRetryable, backoff.ClassThrottled, backoff.ClassOverloaded, backoff.ClassPermanent} {
		policy := backoff.Policy{MaxAttempts: 1}
		events := watch(&policy)
		require.Error(t, policy.Do(t.Context(), returning(backoff.OfClass(errBoom, class)).do))
		require.Equal(t, class, (*events)[0].Class)
	}
}

// A retry that is announced is one that was paid for; if its sleep is cut
// short, the end is told as well.
func TestACancelledSleepIsAnnouncedAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(time.Minute)
		events := watch(policy)
		require.ErrorIs(t, policy.Do(cancelledAfter(t, time.Second), returning(errBoom).do), context.Canceled)
		require.Len(t, *events, 2)
		require.Equal(t, backoff.EventRetry, (*events)[0].Kind)
		require.Equal(t, backoff.ReasonCanceled, (*events)[1].Reason)
		require.Equal(t, time.Second, (*events)[1].Slept)
		require.True(t, (*events)[1].Waiting)
	})
}

// The rule of Event's doc comment, held against the operation's own count, over
// calls that end in every way.
func TestAttemptsAreCountedFromEventsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draw := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			made, counted, ends := 0, 0, 0
			policy := backoff.Policy{Schedule: backoff.Sequence(0, time.Second, 0, time.Minute), MaxAttempts: 1 + draw.IntN(6)}
			switch draw.IntN(5) {
			case 0:
				policy.Budget = refusing(2 + draw.IntN(4))
			case 1:
				most := draw.IntN(4)
				policy.Budget = &clerk{depart: func(n int) bool { return n <= most }}
			case 2:
				policy.AttemptTimeout = time.Minute
			}
			waits := draw.IntN(4) == 0
			policy.Observer = func(_ context.Context, e backoff.Event) {
				if ended(e) {
					counted++
				}
				if e.Kind == backoff.EventGiveUp || e.Kind == backoff.EventSuccess {
					ends++
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(draw.IntN(120))*time.Second)
			breaker := &backoff.Breaker{ConsecutiveFailures: 2, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Second)}
			hasty := draw.IntN(3) == 0
			op := breaker.Wrap
			if waits {
				op = func(op func(context.Context) error) func(context.Context) error { return waitingFor(breaker, op) }
			}
			_ = policy.Do(ctx, func(ctx context.Context) error {
				return op(func(context.Context) error {
					made++
					if hasty && made > 1 {
						cancel()
					}
					if draw.IntN(4) == 0 {
						return nil
					}
					return errBoom
				})(ctx)
			})
			cancel()
			require.Equal(t, made, counted, "%+v", policy.MaxAttempts)
			require.Equal(t, 1, ends)
		}
	})
}

// ended is the rule.
func ended(e backoff.Event) bool {
	switch e.Kind {
	case backoff.EventRefused, backoff.EventTransition:
		return false
	case backoff.EventGiveUp:
		return e.Attempt > 0 && !e.Waiting
	}
	return true
}

func TestABreakerTellsOfItsChangesInTheNameOfTheCallThatCausedThem(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		var got []string
		b := &backoff.Breaker{Name: "db", ConsecutiveFailures: 1, ConsecutiveSpan: -1, ProbeSuccesses: 1, Observer: func(ctx context.Context, e backoff.Event) {
			line := fmt.Sprint(ctx.Value(key{}), ": ", e.Name, " ", e.Kind)
			if e.Transition != nil {
				line += " " + e.Transition.To.String()
			}
			got = append(got, line)
		}}
		call := func(name string, err error) {
			_ = b.Do(context.WithValue(t.Context(), key{}, name), func(context.Context) error { return err })
		}
		call("first", errBoom)
		call("second", nil)
		time.Sleep(time.Minute)
		call("third", nil)
		b.Trip()
		_, err := b.Allow()
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, []string{
			"first: db transition open", "second: db refused",
			"third: db transition half-open", "third: db transition closed",
			"<nil>: db transition open", "<nil>: db refused",
		}, got)
	})
}

func TestABreakerTellsWhyItRefuses(t *testing.T) {
	for reason, prepare := range map[backoff.Reason]func(*backoff.Breaker){
		backoff.ReasonInvalid: func(b *backoff.Breaker) { b.FailureRate = 2 },
		backoff.ReasonOpen:    func(b *backoff.Breaker) { b.Force(backoff.ModeForcedOpen) },
	} {
		var got []backoff.Event
		b := &backoff.Breaker{Name: "db"}
		prepare(b)
		b.Observer = func(_ context.Context, e backoff.Event) { got = append(got, e) }
		err := b.Do(t.Context(), func(context.Context) error { return nil })
		require.Equal(t, []backoff.Event{{Kind: backoff.EventRefused, Name: "db", Reason: reason, Err: err}}, got)
	}
}

func TestABudgetsRefusalOfAnAttemptSaysNothingOfItsClass(t *testing.T) {
	for name, budget := range map[string]backoff.Budget{"asked": refusing(1), "about to depart": &clerk{depart: func(int) bool { return false }}} {
		policy := backoff.Policy{Budget: budget}
		events := watch(&policy)
		require.ErrorIs(t, policy.Do(t.Context(), returning(nil).do), backoff.ErrBudget)
		require.Equal(t, []backoff.Event{{Kind: backoff.EventGiveUp, MaxAttempts: 4, Reason: backoff.ReasonBudget, Elapsed: (*events)[0].Elapsed}}, *events, name)
	}
}

func TestTheRetryAfterThatEndedACallIsInItsLastEvent(t *testing.T) {
	var policy backoff.Policy
	events := watch(&policy)
	require.Error(t, policy.Do(t.Context(), returning(backoff.RetryAfter(errBoom, time.Hour)).do))
	require.Equal(t, time.Hour, (*events)[0].RetryAfter)
}

func TestTheFirstPanicOfAnObserverIsReportedAndNoOther(t *testing.T) {
	text := silence(t)
	backoff.ForgetPanics()
	policy := backoff.Policy{Observer: func(context.Context, backoff.Event) { panic("ill") }}
	for range 2 {
		require.NoError(t, policy.Do(t.Context(), returning(nil).do))
	}
	require.Equal(t, 1, strings.Count(text(), "an observer panicked, which is reported only once: ill"))
}

// It would be called, and its panic contained.
func TestNobodyIsToldWhereThereIsNoObserver(t *testing.T) {
	text := silence(t)
	backoff.ForgetPanics()
	policy := backoff.Policy{Schedule: backoff.Constant(1), Jitter: backoff.NoJitter}
	require.Error(t, policy.Do(t.Context(), returning(errBoom).do))
	_, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: -1}, func(context.Context) (int, error) { return 0, errBoom }, nil)
	require.Error(t, err)
	var breaker backoff.Breaker
	breaker.Trip()
	breaker.Reset()
	require.Empty(t, text())
}

func TestSleptIsTheSleepBeforeThisAttempt(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Hour} {
		policy := backoff.Policy{Schedule: backoff.Sequence(time.Second, 0, time.Minute), Jitter: backoff.NoJitter, MaxElapsed: limit}
		events := watch(&policy)
		_, err := attempts(t, policy, errBoom)
		require.Error(t, err)
		require.Equal(t, msec(0, 1000, 0, 60_000), each(*events, func(e backoff.Event) time.Duration { return e.Slept }))
	}
}

func TestEventsCountFromTheLastProgress(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Constant(0), MaxAttempts: 2}
	events := watch(&policy)
	r := policy.Start(t.Context())
	for range r.Attempts() {
		if r.Attempt() == 2 {
			r.Progress()
		}
		r.Fail(errBoom)
	}
	require.Equal(t, []int{1, 1, 2}, each(*events, func(e backoff.Event) int { return e.Attempt }))
}

func TestKindsHaveNames(t *testing.T) {
	for kind, name := range []string{"retry", "give up", "success", "reconnect", "refused", "hedge won", "hedge lost", "transition", "unknown"} {
		require.Equal(t, name, backoff.EventKind(kind).String())
	}
}

// An observer must not fail the call it observes.
func TestAPanicInTheObserverIsContained(t *testing.T) {
	silence(t)
	for _, thrown := range []any{errors.ErrUnsupported, "text", 7} {
		books, heard := &ledger{}, 0
		policy := backoff.Policy{Budget: books, Schedule: backoff.Constant(0), Observer: func(context.Context, backoff.Event) { heard++; panic(thrown) }}
		require.NoError(t, policy.Do(t.Context(), returning(errBoom, nil).do))
		require.Equal(t, 2, heard)
		require.Empty(t, books.out)
		require.Equal(t, "done 2: success", books.lines[len(books.lines)-1])
	}
}

// silence keeps what is written to standard error from the output of the tests,
// and returns a function that reads it.
func silence(t *testing.T) func() string {
	file, err := os.CreateTemp(t.TempDir(), "stderr")
	require.NoError(t, err)
	real := os.Stderr
	os.Stderr = file
	t.Cleanup(func() {
		os.Stderr = real
		require.NoError(t, file.Close())
	})
	return func() string {
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		return string(text)
	}
}

// In a program the report comes once, so the test makes it itself.
func TestAPanicInTheObserverIsReportedWithItsStack(t *testing.T) {
	for text, thrown := range map[string]any{"unsupported operation": errors.ErrUnsupported, "text": "text", "of a type of its own": mute{}} {
		read := silence(t)
		backoff.ReportPanic(thrown)
		require.Contains(t, read(), "backoff: an observer panicked, which is reported only once: "+text+"\ngoroutine ")
	}
}

// mute is an error whose text panics.
type mute struct{}

func (mute) Error() string { panic("no text") }

func TestObserversAreToldInOrderAndApart(t *testing.T) {
	silence(t)
	var heard []string
	note := func(name string) backoff.Observer {
		return func(_ context.Context, e backoff.Event) { heard = append(heard, name+" "+e.Kind.String()) }
	}
	broken := func(context.Context, backoff.Event) { panic("broken") }
	policy := backoff.Policy{Schedule: backoff.Constant(0), Observer: backoff.JoinObservers(nil, note("a"), broken, note("b"))}
	require.NoError(t, policy.Do(t.Context(), returning(errBoom, nil).do))
	require.Equal(t, []string{"a retry", "b retry", "a success", "b success"}, heard)
}

func TestNoObserversAreNone(t *testing.T) {
	require.Nil(t, backoff.JoinObservers())
	require.Nil(t, backoff.JoinObservers(nil, nil))
}

// Response headers, such as a request's id, reach the
// observer.
func TestResponseHeadersReachTheObserver(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Constant(0), MaxAttempts: 2}
	events := watch(&policy)
	for _, err := range []error{fmt.Errorf("get: %w", answered{"7"}), errors.Join(errBoom, answered{"7"}, answered{"8"})} {
		require.Error(t, policy.Do(t.Context(), returning(err).do))
	}
	require.Len(t, *events, 4)
	for _, e := range *events {
		require.Equal(t, []string{"7"}, e.Header["X-Amzn-Requestid"], "%v", e.Kind)
	}
}

type answered struct{ id string }

func (answered) Error() string { return "503" }
func (a answered) ResponseHeader() map[string][]string {
	return map[string][]string{"X-Amzn-Requestid": {a.id}}
}

func TestNotifySurvivesAPanicAndANilObserver(t *testing.T) {
	backoff.Observer(nil).Notify(t.Context(), backoff.Event{})
	backoff.Observer(func(context.Context, backoff.Event) { panic("observer") }).Notify(t.Context(), backoff.Event{})
}
