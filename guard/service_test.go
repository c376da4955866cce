package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
)

// atOnce is a policy that does not wait between attempts.
var atOnce = backoff.Policy{Schedule: backoff.Constant(0)}

// failing is an operation that fails so often, and then succeeds.
func failing(failures int) func(context.Context) error {
	n := 0
	return func(context.Context) error {
		if n++; n <= failures {
			return errBoom
		}
		return nil
	}
}

func TestTheBreakerSeesCallsAndTheBudgetAttempts(t *testing.T) {
	s := &guard.Service{Name: "orders"}
	require.NoError(t, s.Do(t.Context(), atOnce, failing(2)))
	require.NoError(t, s.With(atOnce).Do(t.Context(), okay))
	require.Error(t, s.Do(t.Context(), once, failing(1)))

	budget, breaker := s.Parts()
	require.NotNil(t, budget)
	require.Equal(t, "orders", breaker.Name)
	state := s.State()
	require.Equal(t, breaker.Stats(), state.Breaker)
	require.EqualValues(t, 2, state.Breaker.Successes)
	require.EqualValues(t, 1, state.Breaker.Failures)
	require.EqualValues(t, 2, state.Budget.Retries)
	require.Zero(t, state.PerSecond)
	require.Zero(t, state.Waiting)
}

func TestTheStateSaysHowManyCallsWaitAndForWhatRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(guard.Service)
		require.Error(t, s.Do(t.Context(), once, func(context.Context) error { return errTooMany }))
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() { _ = s.Do(ctx, once, okay) })
		}
		synctest.Wait()
		paced := s.State()
		require.Positive(t, paced.PerSecond)
		require.Less(t, paced.PerSecond, 11.)
		require.Positive(t, paced.Waiting, "for their turn")
		cancel()
		calls.Wait()
		require.Zero(t, s.State().Waiting)

		b := opensFor(time.Second)
		b.Trip()
		down := under(b)
		ctx, cancel = context.WithCancel(t.Context())
		for range 20 {
			calls.Go(func() { _ = down.Do(ctx, once, okay) })
		}
		synctest.Wait()
		require.Equal(t, 20, down.State().Waiting, "for the service to come back")
		cancel()
		calls.Wait()
	})
}

func TestAGuardThatIsLeftOutIsNil(t *testing.T) {
	own := new(limit.Concurrency)
	s := &guard.Service{NoBudget: true, NoBreaker: true, Budget: own, Breaker: new(backoff.Breaker)}
	budget, breaker := s.Parts()
	require.Nil(t, budget)
	require.Nil(t, breaker)
	require.NoError(t, s.Do(t.Context(), atOnce, failing(3)))
	require.Equal(t, guard.State{}, s.State())

	s = &guard.Service{Budget: own, Breaker: breaker}
	budget, breaker = s.Parts()
	_, _, granted := budget.Reserve(backoff.Attempt{})
	require.True(t, granted)
	require.Equal(t, 1, own.Load(), "other code that shares the budget takes its places")
	require.NotNil(t, breaker)
	require.Zero(t, s.State().Budget, "it is no RetryBudget")
}

func TestTheBudgetOfAPolicyTakesThePlaceOfThatOfTheService(t *testing.T) {
	ofService, ofPolicy := new(backoff.RetryBudget), new(backoff.RetryBudget)
	for _, s := range []*guard.Service{{Budget: ofService}, {Budget: ofService, FailFast: true}, {NoBudget: true}} {
		own := atOnce
		own.Budget = ofPolicy
		before := ofPolicy.Stats().Successes
		require.NoError(t, s.Do(t.Context(), own, okay))
		require.NoError(t, s.With(own).Do(t.Context(), okay))
		require.Equal(t, before+2, ofPolicy.Stats().Successes)
	}
	require.Zero(t, ofService.Stats().Successes)
}

func TestTheObserverOfAServiceHearsOfItsBreaker(t *testing.T) {
	var kinds []backoff.EventKind
	s := &guard.Service{Name: "orders", Observer: func(_ context.Context, e backoff.Event) {
		require.Equal(t, "orders", e.Name)
		kinds = append(kinds, e.Kind)
	}}
	breakerOf(s).Trip()
	defer breakerOf(s).Reset()
	require.ErrorIs(t, s.Do(guard.WithFailFast(t.Context()), once, okay), backoff.ErrOpen)
	require.Equal(t, []backoff.EventKind{backoff.EventTransition, backoff.EventRefused}, kinds)
}

// One event ends each call, whoever ended it.
func TestThePolicyHearsOnceOfACallThatWasNotMade(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx     context.Context
		service *guard.Service
		trip    bool
		want    backoff.Reason
	}{
		"by the breaker":        {t.Context(), &guard.Service{FailFast: true}, true, backoff.ReasonOpen},
		"by an invalid breaker": {t.Context(), &guard.Service{Breaker: &backoff.Breaker{FailureRate: 2}}, false, backoff.ReasonInvalid},
		"by an invalid budget":  {t.Context(), &guard.Service{Budget: &backoff.RetryBudget{Ratio: -1}}, false, backoff.ReasonInvalid},
		"by the caller":         {ended, &guard.Service{}, false, backoff.ReasonCanceled},
		"by a budget":           {t.Context(), &guard.Service{Budget: refusing{}, FailFast: true}, false, backoff.ReasonBudget},
		"by the line":           {nil, &guard.Service{}, true, backoff.ReasonDeadline},
		"where none may wait":   {nil, &guard.Service{MaxWaiting: 1}, true, backoff.ReasonOpen},
	} {
		bubble(t, name, func(t *testing.T) {
			s := c.service
			if c.trip {
				breakerOf(s).Trip()
				defer breakerOf(s).Reset()
			}
			policy := backoff.Policy{Name: "search"}
			events := watch(&policy)
			client := s.With(policy)
			ctx := c.ctx
			if ctx == nil {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
			}
			if s.MaxWaiting > 0 {
				waiting, leave := context.WithCancel(t.Context())
				defer leave()
				go func() { _ = s.Do(deadline(waiting, time.Minute), once, okay) }()
				synctest.Wait()
			}
			for n := range 2 {
				err := client.Do(ctx, func(context.Context) error { t.Error("it was made"); return nil })
				require.Error(t, err)
				require.Len(t, *events, n+1)
				e := (*events)[n]
				require.Equal(t, []any{backoff.EventGiveUp, "search", 0, c.want, 4}, []any{e.Kind, e.Name, e.Attempt, e.Reason, e.MaxAttempts})
			}
		})
	}
}

// refusing is a budget that refuses every attempt.
type refusing struct{ backoff.BudgetDefaults }

func (refusing) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, false
}

func TestARefusalOfTheServicesBudgetNamesIt(t *testing.T) {
	s := guard.Service{Budget: refusing{}, FailFast: true}
	text := s.Do(t.Context(), backoff.Policy{}, func(context.Context) error { return nil }).Error()
	require.Equal(t, "backoff: not started: budget refused (Budget); refused by the Budget of the guard.Service", text)
	text = s.Do(t.Context(), backoff.Policy{Budget: refusing{}}, func(context.Context) error { return nil }).Error()
	require.Equal(t, "backoff: not started: budget refused (Budget)", text)
}

func TestThePolicyHearsOnceOfACallThatWasMade(t *testing.T) {
	for _, service := range []*guard.Service{{}, {FailFast: true}, {NoBreaker: true}} {
		policy := backoff.Policy{MaxAttempts: 1}
		events := watch(&policy)
		require.ErrorIs(t, service.Do(t.Context(), policy, func(context.Context) error { return backoff.Permanent(errBoom) }), errBoom)
		require.NoError(t, service.Do(t.Context(), policy, okay))
		require.Len(t, *events, 2)
	}
}

func TestAnInvalidServiceSaysWhatIsWrong(t *testing.T) {
	s := &guard.Service{Budget: &backoff.RetryBudget{Ratio: -1}, Breaker: &backoff.Breaker{FailureRate: 2}}
	client := s.With(backoff.Policy{Schedule: backoff.Constant(-1)})
	require.ErrorContains(t, s.Validate(), "RetryBudget.Ratio")
	require.ErrorContains(t, s.Validate(), "Breaker.FailureRate")
	for _, field := range []string{"RetryBudget.Ratio", "Breaker.FailureRate", "Policy.Schedule"} {
		require.ErrorContains(t, client.Validate(), field)
	}
	require.NoError(t, new(guard.Service).Validate())
	require.NoError(t, new(guard.Service).With(backoff.Policy{}).Validate())
	s.NoBudget, s.NoBreaker = true, true
	require.NoError(t, s.Validate(), "they are left out")

	for _, s := range []*guard.Service{{Budget: &backoff.RetryBudget{Ratio: -1}}, {Breaker: &backoff.Breaker{FailureRate: 2}}} {
		for _, s.FailFast = range []bool{false, true} {
			require.EqualError(t, s.Do(t.Context(), once, okay), s.Validate().Error())
		}
	}
}

// So a variable that nobody has set does no harm.
func TestNoServiceRefusesEveryCall(t *testing.T) {
	var none *guard.Service
	const want = "backoff: guard.Service is nil"
	require.EqualError(t, none.Validate(), want)
	require.EqualError(t, none.Do(t.Context(), once, okay), want)
	require.EqualError(t, none.With(once).Do(t.Context(), okay), want)
	require.EqualError(t, new(guard.Client).Do(t.Context(), okay), want)
	require.EqualError(t, none.Around(t.Context(), &once, new(guard.Turn), nil), want)
	require.ErrorContains(t, none.With(backoff.Policy{Schedule: backoff.Constant(-1)}).Validate(), want)
	require.False(t, backoff.Policy{}.Retryable(none.Validate()))
	require.Equal(t, guard.State{}, none.State())
	require.Nil(t, none.Tenant("a"))
	require.Nil(t, budgetOf(none))
	require.Nil(t, breakerOf(none))
}

// Calls whose attempts a client makes itself.

func TestWhatSaysNothingOfTheServiceDoesNotCount(t *testing.T) {
	s := &guard.Service{}
	for _, noFault := range []bool{true, false} {
		var turn guard.Turn
		err := s.Around(t.Context(), &once, &turn, func(context.Context, *backoff.Policy) error {
			turn.NoFault = noFault
			return errBoom
		})
		require.Equal(t, errBoom, err)
		require.Equal(t, noFault, s.State().Breaker.Failures == 0)
	}
}

func TestACallWhoseFaultIsItsOwnDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := under(nil), time.Now()
		for range 10 {
			var turn guard.Turn
			require.Equal(t, errBoom, s.Around(t.Context(), &once, &turn, func(context.Context, *backoff.Policy) error {
				turn.Own = true
				return errBoom
			}))
		}
		require.NoError(t, s.Do(t.Context(), once, okay), "nor is the service taken for down")
		require.Zero(t, time.Since(began))
	})
}

func TestACallMayFailFastThoughTheServiceDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := opensFor(time.Second)
		s, began := under(b), time.Now()
		call := func(op func(context.Context) error) error {
			turn := guard.Turn{FailFast: true}
			return s.Around(t.Context(), &atOnce, &turn, func(ctx context.Context, _ *backoff.Policy) error { return op(ctx) })
		}
		require.Equal(t, errBoom, call(boom))
		require.ErrorIs(t, call(okay), backoff.ErrOpen)
		require.Zero(t, time.Since(began))
		time.Sleep(time.Minute)
	})
}

func TestAPanicInACallPassesThroughAndCounts(t *testing.T) {
	for _, s := range []*guard.Service{{}, {FailFast: true}} {
		require.PanicsWithValue(t, "bug", func() {
			_ = s.Do(t.Context(), once, func(context.Context) error { panic("bug") })
		})
		require.EqualValues(t, 1, s.State().Breaker.Failures)
	}
}

var (
	errBoom = errors.New("boom")
	errDown = errors.New("down")
)

// bubble runs a test under a clock of its own.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// gaveUp returns the error of a policy that gave up, or of a service that did.
func gaveUp(t *testing.T, err error) (gave *backoff.Error) {
	t.Helper()
	require.ErrorAs(t, err, &gave)
	return gave
}

// watch has the events of a policy kept.
func watch(p *backoff.Policy) *[]backoff.Event {
	events := new([]backoff.Event)
	p.Observer = func(_ context.Context, e backoff.Event) { *events = append(*events, e) }
	return events
}

func msec(ms ...int64) []time.Duration {
	all := make([]time.Duration, len(ms))
	for i, n := range ms {
		all[i] = time.Duration(n) * time.Millisecond
	}
	return all
}

func TestACallWhoseContextHasEndedSaysSoAsItsPolicyDoes(t *testing.T) {
	open := new(backoff.Breaker)
	open.Trip()
	for name, s := range map[string]*guard.Service{
		"closed":               {},
		"open":                 {Breaker: open},
		"open, and fails fast": {Breaker: open, FailFast: true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p := backoff.Policy{Name: "save"}
		never := func(context.Context) error { panic("called") }
		err := s.Do(ctx, p, never)
		require.EqualError(t, err, p.Do(ctx, never).Error(), name)
		require.ErrorIs(t, err, context.Canceled)
	}
}
