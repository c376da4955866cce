// Package nilvalues has a nil pointer put wherever the root module takes an interface, and
// nil wherever it takes a pointer or a func. Validate must name it, or nil means what the
// field says: nothing panics when the first call fails.
package nilvalues

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/control/wake"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/limit/adaptive"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/plug"
	"github.com/gobackoff/backoff/poll"
)

// everything implements all interfaces that are fields. Its methods read it, so that they
// panic for a nil pointer.
type everything struct {
	backoff.BudgetDefaults

	delay time.Duration
}

func (e *everything) Delay(int) time.Duration                        { return e.delay }
func (e *everything) Repeatable(context.Context, backoff.Class) bool { return e.delay == 0 }
func (e *everything) Closed(string)                                  { e.delay++ }
func (e *everything) Opened(string, time.Duration, int)              { e.delay++ }
func (e *everything) Probe(context.Context, string, time.Duration) (t backoff.BreakerTransition) {
	e.delay++
	return t
}

func (e *everything) Consult(context.Context, string, func()) (t backoff.BreakerTransition) {
	e.delay++
	return t
}

func (e *everything) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, e.delay, true
}

var errDown = errors.New("down")

func fails(context.Context) error { return errDown }

// settings are the structs that a program fills in, and a call under them that fails.
var settings = []struct {
	name string
	of   any
	call func(ctx context.Context, of any) error
}{
	{"Policy", backoff.Policy{}, func(ctx context.Context, of any) error { return of.(backoff.Policy).Do(ctx, fails) }},
	{"Policy.ByClass", backoff.ClassLimits{}, func(ctx context.Context, of any) error {
		p := backoff.Policy{ByClass: map[backoff.Class]backoff.ClassLimits{backoff.ClassUnknown: of.(backoff.ClassLimits)}}
		return errors.Join(p.Validate(), p.Do(ctx, fails))
	}},
	{"Supervisor", backoff.Supervisor{MaxRuns: 2}, func(ctx context.Context, of any) error { return of.(backoff.Supervisor).Run(ctx, fails) }},
	{"Breaker", backoff.Breaker{Name: "b", ConsecutiveFailures: 1, ConsecutiveSpan: -1}, func(ctx context.Context, of any) error {
		b := of.(*backoff.Breaker)
		return errors.Join(b.Do(ctx, fails), b.Do(ctx, fails), b.Validate())
	}},
	{"Service", guard.Service{FailFast: true}, func(ctx context.Context, of any) error {
		s := of.(*guard.Service)
		s.State()
		return errors.Join(s.Do(ctx, backoff.Policy{MaxAttempts: 2}, fails), s.Validate())
	}},
	{"Hedge", hedge.Hedge{}, func(ctx context.Context, of any) error {
		_, err := hedge.Value(ctx, of.(*hedge.Hedge), func(context.Context) (int, error) { return 0, errDown }, nil)
		return err
	}},
	{"Rate", limit.Rate{}, asBudget},
	{"Throttle", limit.Throttle{}, asBudget},
	{"Concurrency", limit.Concurrency{}, asBudget},
	{"Limit", adaptive.Limit{}, asBudget},
	{"Pacer", pace.Pacer{}, asBudget},
	{"HoldOff", pace.HoldOff{}, asBudget},
	{"RetryBudget", backoff.RetryBudget{}, asBudget},
}

func asBudget(ctx context.Context, of any) error {
	return backoff.Policy{Budget: of.(backoff.Budget), MaxAttempts: 2}.Do(ctx, fails)
}

// made returns a pointer to a copy of settings, or the copy itself if that has the call.
func made(of any) (pointer reflect.Value) {
	pointer = reflect.New(reflect.TypeOf(of))
	pointer.Elem().Set(reflect.ValueOf(of))
	return pointer
}

func given(name string, pointer reflect.Value) any {
	switch name {
	case "Policy", "Policy.ByClass", "Supervisor":
		return pointer.Elem().Interface()
	}
	return pointer.Interface()
}

func TestEveryInterfaceRefusesANilPointerByTheNameOfItsField(t *testing.T) {
	var nothing *everything
	fields := 0
	for _, s := range settings {
		for i := range reflect.TypeOf(s.of).NumField() {
			field := reflect.TypeOf(s.of).Field(i)
			if !field.IsExported() || field.Type.Kind() != reflect.Interface {
				continue
			}
			require.True(t, reflect.TypeOf(nothing).Implements(field.Type), "give everything the methods of %s.%s", s.name, field.Name)
			pointer := made(s.of)
			pointer.Elem().Field(i).Set(reflect.ValueOf(nothing))
			err := s.call(t.Context(), given(s.name, pointer))
			require.ErrorContains(t, err, field.Name+" holds a nil pointer", s.name)
			fields++
		}
	}
	require.GreaterOrEqual(t, fields, 10)
}

// What is nil without a type has a documented meaning.
func TestEveryPointerFuncAndInterfaceMayBeNil(t *testing.T) {
	for _, s := range settings {
		err := s.call(t.Context(), given(s.name, made(s.of)))
		if s.name == "Rate" {
			require.EqualError(t, err, "backoff: limit.Rate.Limiter is nil")
		} else {
			require.ErrorIs(t, err, errDown, s.name)
		}
	}
}

func TestANilPointerOfOurOwnIsRefused(t *testing.T) {
	for name, call := range map[string]func(context.Context) error{
		"schedule":   backoff.Policy{Schedule: (*backoff.Exponential)(nil)}.Wrap(fails),
		"another":    backoff.Policy{Schedule: (*backoff.Linear)(nil)}.Wrap(fails),
		"a constant": backoff.Policy{Schedule: (*backoff.Constant)(nil)}.Wrap(fails),
		"a func":     backoff.Policy{Schedule: backoff.ScheduleFunc(nil)}.Wrap(fails),
		"timeouts":   backoff.Policy{AttemptTimeoutSchedule: (*backoff.Exponential)(nil)}.Wrap(fails),
		"joined":     backoff.Policy{Budget: backoff.JoinBudgets(new(backoff.RetryBudget), (*everything)(nil))}.Wrap(fails),
		"a loop": func(ctx context.Context) error {
			return backoff.Supervisor{Policy: backoff.Policy{Budget: (*everything)(nil)}}.Run(ctx, fails)
		},
		"a poll": func(ctx context.Context) error {
			p := backoff.Policy{MaxElapsed: time.Hour, Schedule: (*backoff.Exponential)(nil)}
			return poll.Until(ctx, p, func(context.Context) (bool, error) { return false, nil })
		},
		"a hedge": func(ctx context.Context) error {
			_, err := hedge.Value(ctx, nil, func(context.Context) (int, error) { return 0, errDown }, nil)
			return err
		},
		"a service":  func(ctx context.Context) error { return (*guard.Service)(nil).Do(ctx, backoff.Policy{}, fails) },
		"a client":   func(ctx context.Context) error { return new(guard.Client).Do(ctx, fails) },
		"a breaker":  func(context.Context) error { return (*backoff.Breaker)(nil).Validate() },
		"its client": func(context.Context) error { return new(guard.Client).Validate() },
	} {
		err := call(t.Context())
		require.ErrorContains(t, err, "nil", name)
		require.NotErrorIs(t, err, errDown, name)
		require.False(t, backoff.Policy{}.Retryable(err), name)
	}
}

func TestWhatTakesNilSaysWhatItMeans(t *testing.T) {
	require.Nil(t, backoff.RetryIf(nil))
	require.Nil(t, backoff.JoinObservers(nil, nil))
	require.NoError(t, backoff.JoinBudgets(nil, nil).Validate())
	require.Nil(t, plug.FromZero(nil))
	require.Nil(t, plug.OnCode[int](nil))
	_, again := plug.Gax(nil).Retry(errDown)
	require.False(t, again)
	require.NotNil(t, backoffslog.New(nil, nil))
	var s *wake.Signal
	s.Wake()
	require.Equal(t, t.Context(), s.Context(t.Context()))
	require.Nil(t, endpoint.Of(endpoint.With(t.Context(), nil)))
}
