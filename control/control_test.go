package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/limit"
)

var errBusy = errors.New("busy")

// bubble runs a test under a clock of its own.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// fast is a policy of a name, whose retries do not wait.
func fast(name string) backoff.Policy {
	return backoff.Policy{Name: name, Schedule: backoff.Constant(0)}
}

// attempts returns how many attempts a failing call makes.
func attempts(d backoff.Doer) (n int) {
	_ = d.Do(context.Background(), func(context.Context) error { n++; return errBusy })
	return n
}

// override returns an override of a name.
func override(what, name, to string) control.Override {
	return control.Override{Target: control.Target{What: what, Name: name}, To: to, Who: "ada", Why: "drill"}
}

// during returns an override that ends after d.
func during(d time.Duration, o control.Override) control.Override {
	o.For = d
	return o
}

// panelOf returns a panel, and the handle that it has of a policy.
func panelOf(policy backoff.Policy) (*control.Panel, *control.Handle) {
	p := new(control.Panel)
	return p, p.Policy(policy)
}

func set(t *testing.T, p *control.Panel, o control.Override) {
	t.Helper()
	require.NoError(t, p.Set(t.Context(), o))
}

func clear(t *testing.T, p *control.Panel, target control.Target) {
	t.Helper()
	require.NoError(t, p.Clear(t.Context(), target, "bob", "over"))
}

func TestAnOverrideEndsExactlyWhenItsTimeIsOver(t *testing.T) {
	for name, c := range map[string]struct{ given, want, longest time.Duration }{
		"an hour by default":       {0, time.Hour, 0},
		"as long as it says":       {10 * time.Minute, 10 * time.Minute, 0},
		"no longer than the panel": {0, time.Minute, time.Minute},
	} {
		bubble(t, name, func(t *testing.T) {
			p := control.Panel{MaxFor: c.longest}
			h := p.Policy(fast("search"))
			set(t, &p, during(c.given, override(control.Retries, "search", control.Off)))
			require.Equal(t, time.Now().Add(c.want), p.Overrides()[0].Until)
			time.Sleep(c.want - 1)
			require.Equal(t, 1, attempts(h))
			time.Sleep(1 * time.Nanosecond)
			synctest.Wait()
			require.Equal(t, 4, attempts(h))
			require.Empty(t, p.Overrides())
		})
	}
}

func TestOnlyAPanelThatAllowsItHasOverridesWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := during(-1, override(control.Retries, control.All, control.Off))
		require.EqualError(t, new(control.Panel).Set(t.Context(), o), "backoff: control: for is -1ns, want at most 24h0m0s (Panel.MaxFor)")
		p := control.Panel{MaxFor: -1}
		h := p.Policy(fast("search"))
		set(t, &p, o)
		time.Sleep(1000 * time.Hour)
		require.Equal(t, 1, attempts(h))
		require.True(t, p.Overrides()[0].Until.IsZero())
	})
}

func TestAnOverrideOfAllHoldsForPoliciesWithoutANameAndThoseRegisteredLater(t *testing.T) {
	p, h := panelOf(fast(""))
	require.Empty(t, p.Targets())
	set(t, p, override(control.Retries, control.All, control.Off))
	require.Equal(t, 1, attempts(h))
	require.Equal(t, 1, attempts(p.Policy(fast("new"))))
}

// The error of a policy that is limited to one attempt invites the policies
// around it to retry. Retries are switched off to prevent that.
func TestAPolicyAroundOneWhoseRetriesAreOffDoesNotRetryInstead(t *testing.T) {
	p, h := panelOf(fast("search"))
	set(t, p, override(control.Retries, "search", control.Off))
	for _, layer := range []string{"%w", "shard 7: %w"} {
		calls, inner := 0, error(nil)
		err := fast("page").Do(t.Context(), func(ctx context.Context) error {
			inner = h.Do(ctx, func(context.Context) error { calls++; return backoff.RetryAfter(errBusy, time.Minute) })
			return fmt.Errorf(layer, inner)
		})
		require.Equal(t, 1, calls, layer)
		require.ErrorContains(t, err, "backoff: search: gave up after 1 attempt; retries are switched off: busy")
		require.ErrorIs(t, inner, backoff.ErrExhausted)
		require.ErrorIs(t, backoff.Cause(inner), errBusy)
		require.False(t, new(backoff.Policy).Retryable(fmt.Errorf(layer, inner)))
		var gave *backoff.Error
		require.ErrorAs(t, inner, &gave)
		require.Equal(t, "search", gave.Name)
		require.Equal(t, time.Minute, gave.RetryAfter(), "for WriteError")
	}
}

func TestWhatNoPolicyRetriesIsNotBlamedOnAnOverride(t *testing.T) {
	p, h := panelOf(fast("search"))
	set(t, p, override(control.Retries, control.All, control.Off))
	require.Equal(t, backoff.Permanent(errBusy), h.Do(t.Context(), func(context.Context) error { return backoff.Permanent(errBusy) }))
	require.NoError(t, h.Do(t.Context(), func(context.Context) error { return nil }))
}

func TestTheErrorOfAnAttemptThatTimedOutStillSaysSo(t *testing.T) {
	p, h := panelOf(backoff.Policy{AttemptTimeout: time.Second})
	set(t, p, override(control.Retries, control.All, control.Off))
	err := h.Do(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
	require.ErrorContains(t, err, "backoff: gave up after 1 attempt: attempt timed out; retries are switched off: ")
}

func TestLimitsOfClassesAreOffToo(t *testing.T) {
	var p control.Panel
	policy := fast("search")
	policy.MaxAttempts, policy.ByClass = 1, map[backoff.Class]backoff.ClassLimits{backoff.ClassUnknown: {MaxAttempts: 3}}
	h := p.Policy(policy)
	require.Equal(t, 3, attempts(h))
	set(t, &p, override(control.Retries, control.All, control.Off))
	require.Equal(t, 1, attempts(h))
}

func TestASpecReplacesTheSettingsThatItHasAndNoOthers(t *testing.T) {
	var p control.Panel
	budget, heard := &places{}, 0
	h := p.Policy(backoff.Policy{
		Name: "search", MaxAttempts: 3, MaxElapsed: time.Minute, AttemptTimeout: time.Second, Schedule: backoff.Constant(0),
		Budget: budget, Classify: backoff.DefaultClassifier, Observer: func(context.Context, backoff.Event) { heard++ },
	})
	set(t, &p, override(control.Spec, "search", `{"maxAttempts": 2, "attemptTimeoutSchedule": "2s", "jitter": "none"}`))
	now := h.Policy()
	require.Equal(t, 2, now.MaxAttempts)
	require.Equal(t, backoff.Constant(2*time.Second), now.AttemptTimeoutSchedule)
	require.Zero(t, now.AttemptTimeout, "one of the two is valid")
	require.Equal(t, time.Minute, now.MaxElapsed)
	require.Equal(t, backoff.Constant(0), now.Schedule)
	require.Equal(t, backoff.Budget(budget), now.Budget)
	require.NotNil(t, now.Classify)
	require.Equal(t, 2, attempts(h))
	require.Equal(t, 2, heard)
	set(t, &p, override(control.Retries, "search", control.Off))
	require.Equal(t, 1, attempts(h))
	clear(t, &p, control.Target{What: control.Retries, Name: "search"})
	require.Equal(t, 2, attempts(h), "the spec still holds")
	clear(t, &p, control.Target{What: control.Spec, Name: "search"})
	require.Equal(t, 3, attempts(h))
}

func TestEveryMemberOfASpecIsTakenOver(t *testing.T) {
	p, h := panelOf(backoff.Policy{Name: "search", Idempotency: backoff.Idempotent})
	for member, changed := range map[string]func(*backoff.Policy) bool{
		`"name": "search", "maxAttempts": 7`:             func(p *backoff.Policy) bool { return p.MaxAttempts == 7 },
		`"maxElapsed": "7s"`:                             func(p *backoff.Policy) bool { return p.MaxElapsed == 7*time.Second },
		`"attemptTimeout": "7s"`:                         func(p *backoff.Policy) bool { return p.AttemptTimeout == 7*time.Second },
		`"attemptTimeoutSchedule": "7s"`:                 func(p *backoff.Policy) bool { return p.AttemptTimeoutSchedule != nil },
		`"schedule": "7s"`:                               func(p *backoff.Policy) bool { return p.Schedule != nil },
		`"byClass": {"throttled": {"maxAttempts": 7}}`:   func(p *backoff.Policy) bool { return len(p.ByClass) == 1 },
		`"jitter": "equal"`:                              func(p *backoff.Policy) bool { return p.Jitter != nil },
		`"maxDelay": "7s"`:                               func(p *backoff.Policy) bool { return p.MaxDelay == 7*time.Second },
		`"maxRetryAfter": "7s"`:                          func(p *backoff.Policy) bool { return p.MaxRetryAfter == 7*time.Second },
		`"idempotency": "keyed"`:                         func(p *backoff.Policy) bool { return p.Idempotency == backoff.Keyed },
		`"budget": {"retry": {}}`:                        func(p *backoff.Policy) bool { return p.Budget != nil },
		`"shortenLastWait": true`:                        func(p *backoff.Policy) bool { return p.ShortenLastWait },
		`"version": 1, "$schema": "x", "maxDelay": "8s"`: func(p *backoff.Policy) bool { return p.MaxDelay == 8*time.Second },
	} {
		set(t, p, override(control.Spec, "search", "{"+member+"}"))
		require.True(t, changed(h.Policy()), member)
	}
	// The list above is that of the form: a new member is one more case.
	err := p.Set(t.Context(), override(control.Spec, "search", `{"x": 1}`))
	require.EqualError(t, err, "backoff: spec: x is not known, want one of name, maxAttempts, maxElapsed, attemptTimeout, attemptTimeoutSchedule, "+
		"schedule, byClass, jitter, maxDelay, maxRetryAfter, idempotency, budget, shortenLastWait, breaker, version, $schema")
}

func TestABadSpecChangesNothingAndTheErrorNamesTheField(t *testing.T) {
	p, h := panelOf(fast("search"))
	set(t, p, override(control.Spec, "search", `{"maxAttempts": 2}`))
	before, policy := p.Overrides(), h.Policy()
	for text, want := range map[string]string{
		`{"schedule": {"exponential": {"multiplier": 0.5}}}`: "backoff: spec: schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1",
		`{"name": "cart"}`:                 `backoff: control: to has the name "cart", want "search" or none: a policy keeps its name`,
		`{"breaker": {}}`:                  "backoff: control: to has a breaker, want none: it is not part of the policy",
		strings.Repeat(" ", 64<<10) + "{}": "backoff: control: to has 65538 bytes, want at most 65536",
	} {
		require.EqualError(t, p.Set(t.Context(), override(control.Spec, "search", text)), want)
	}
	require.Equal(t, before, p.Overrides())
	require.Same(t, policy, h.Policy())
	require.Equal(t, 2, attempts(h))
}

// conditional is an Idempotency of the program.
type conditional struct{}

func (conditional) Repeatable(context.Context, backoff.Class) bool { return false }

// What protects money is tightened by overrides, and never loosened.
func TestASpecDoesNotLetAPolicyRepeatWhatTheProgramDoesNot(t *testing.T) {
	const repeats, never = `lets the policy repeat what the program does not: want the idempotency "nonIdempotent", or none`, "for which the program allows one attempt"
	onlyThrottled := map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 4}}
	for _, c := range []struct {
		policy       backoff.Policy
		spec, refuse string
	}{
		{backoff.Policy{}, `{"idempotency": "idempotent"}`, repeats}, // of a Transport, it says that a POST may be repeated
		{backoff.Policy{}, `{"idempotency": "keyed"}`, repeats},
		{backoff.Policy{}, `{"idempotency": "nonIdempotent"}`, ""},
		{backoff.Policy{Idempotency: backoff.NonIdempotent}, `{"idempotency": "idempotent"}`, repeats},
		{backoff.Policy{Idempotency: backoff.NonIdempotent}, `{"idempotency": "keyed"}`, repeats},
		{backoff.Policy{Idempotency: backoff.NonIdempotent, MaxAttempts: 1}, `{"idempotency": "nonIdempotent", "maxAttempts": 9}`, ""},
		{backoff.Policy{Idempotency: backoff.Keyed}, `{"idempotency": "idempotent"}`, repeats},
		{backoff.Policy{Idempotency: backoff.Keyed}, `{"idempotency": "nonIdempotent"}`, ""},
		{backoff.Policy{Idempotency: conditional{}}, `{"idempotency": "keyed"}`, repeats},
		{backoff.Policy{Idempotency: conditional{}}, `{"maxAttempts": 9}`, ""},
		{backoff.Policy{Idempotency: backoff.Idempotent, MaxAttempts: 1}, `{"idempotency": "keyed", "maxAttempts": 9}`, ""},
		{backoff.Policy{MaxAttempts: 1}, `{"maxAttempts": 2}`, never},
		{backoff.Policy{MaxAttempts: 1}, `{"maxAttempts": 2, "idempotency": "nonIdempotent"}`, ""},
		{backoff.Policy{MaxAttempts: 1}, `{"byClass": {"retryable": {"maxAttempts": -1}}}`, `"retryable", ` + never},
		{backoff.Policy{MaxAttempts: 1, ByClass: onlyThrottled}, `{"byClass": {"throttled": {"maxAttempts": 9}}, "maxDelay": "1s"}`, ""},
		{backoff.Policy{ByClass: map[backoff.Class]backoff.ClassLimits{backoff.ClassRetryable: {MaxAttempts: 1}}}, `{"byClass": {"throttled": {}}}`, never},
	} {
		var p control.Panel
		c.policy.Name = "pay"
		p.Policy(c.policy)
		err := p.Set(t.Context(), override(control.Spec, "pay", c.spec))
		if c.refuse == "" {
			require.NoError(t, err, c.spec)
		} else {
			require.ErrorContains(t, err, "backoff: control: to ", c.spec)
			require.ErrorContains(t, err, c.refuse, c.spec)
			require.Empty(t, p.Overrides())
		}
		require.Equal(t, 1, attempts(p.Policy(backoff.Policy{Name: "pay", MaxAttempts: 1, Jitter: backoff.NoJitter})), "registered later")
	}
}

func TestAnOverrideThatMakesNoSenseIsRefused(t *testing.T) {
	var p control.Panel
	p.Policy(fast("search"))
	p.Policy(fast("cart"))
	p.Services("hosts", new(guard.Services))
	hostile := new(guard.Services) // package backoffhttp names breakers after hosts, which untrusted clients may choose
	p.Services("hostile", hostile)
	for _, key := range []string{"a.test", "b\nlevel=ERROR", "c" + strings.Repeat("x", 1<<20)} {
		hostile.For(key)
	}
	good := override(control.Retries, "search", control.Off)
	for want, change := range map[string]func(*control.Override){
		"who is empty, want the name of a person":                                                                                                func(o *control.Override) { o.Who = " " },
		"why is empty, want a reason":                                                                                                            func(o *control.Override) { o.Why = "" },
		"why has 201 characters, want at most 200":                                                                                               func(o *control.Override) { o.Why = strings.Repeat("é", 201) },
		`who is "ada\nERROR", want one line of text`:                                                                                             func(o *control.Override) { o.Who = "ada\nERROR" },
		`who is "\xff", want one line of text`:                                                                                                   func(o *control.Override) { o.Who = "\xff" },
		`what is "retry", want one of retries, spec, hedges, breakers`:                                                                           func(o *control.Override) { o.What = "retry" },
		`to is "no", want one of off, on`:                                                                                                        func(o *control.Override) { o.To = "no" },
		`to is "", want one of enforce, observe, forced open, forced closed`:                                                                     func(o *control.Override) { o.What, o.To = control.Breakers, "" },
		`to is "` + strings.Repeat("x", 64) + `...", want one of off, on`:                                                                        func(o *control.Override) { o.To = strings.Repeat("x", 100) },
		`for is 24h0m0.000000001s, want at most 24h0m0s (Panel.MaxFor)`:                                                                          func(o *control.Override) { o.For = 24*time.Hour + 1 },
		`key is "a", want none: only breakers have keys`:                                                                                         func(o *control.Override) { o.Key = "a" },
		`name is "*", want one of cart, search; what is not registered with the panel cannot be overridden`:                                      func(o *control.Override) { o.What, o.Name, o.To = control.Spec, control.All, "{}" },
		`name is "*", want the Services that have the key "a"`:                                                                                   func(o *control.Override) { o.What, o.Name, o.Key, o.To = control.Breakers, control.All, "a", "observe" },
		`name is "x", want one of cart, search; what is not registered with the panel cannot be overridden`:                                      func(o *control.Override) { o.Name = "x" },
		`name is "x", and none is known; what is not registered with the panel cannot be overridden`:                                             func(o *control.Override) { o.What, o.Name = control.Hedges, "x" },
		`name is "", want one of cart, search; what is not registered with the panel cannot be overridden`:                                       func(o *control.Override) { o.Name = "" },
		`key is "a", and none is known; a key is known once there was a call under it`:                                                           func(o *control.Override) { o.What, o.Name, o.Key, o.To = control.Breakers, "hosts", "a", "observe" },
		`key is "d", want one of a.test, "b\nlevel=ERROR", "c` + strings.Repeat("x", 63) + `..."; a key is known once there was a call under it`: func(o *control.Override) { o.What, o.Name, o.Key, o.To = control.Breakers, "hostile", "d", "observe" },
	} {
		o := good
		change(&o)
		require.EqualError(t, p.Set(t.Context(), o), "backoff: control: "+want)
	}
	require.Empty(t, p.Overrides())
	require.EqualError(t, p.Clear(t.Context(), good.Target, "ada", "over"), `backoff: control: name has no override to clear: "retries of search"`)
	require.EqualError(t, p.Clear(t.Context(), control.Target{What: control.Hedges, Name: control.All}, "ada", "over"), `backoff: control: name has no override to clear: "hedges of all"`)
	require.EqualError(t, p.Clear(t.Context(), good.Target, "", "over"), "backoff: control: who is empty, want the name of a person")
	for i := range 30 {
		p.Policy(fast(fmt.Sprintf("many-%02d", i)))
	}
	o := override(control.Retries, "x", control.Off)
	require.ErrorContains(t, p.Set(t.Context(), o), "many-18 and 12 more; ")
}

func TestEveryChangeIsAnEventWithWhoAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard, logged strings.Builder
		logger := slog.New(slog.NewTextHandler(&logged, nil))
		p := control.Panel{Observer: func(ctx context.Context, c control.Change) {
			require.NoError(t, ctx.Err(), "the Observer gets a change after the request that made it is over")
			fmt.Fprintln(&heard, c.Kind, c.Override.Target, c.Who, c.Why)
			logger.InfoContext(ctx, "override", "control", c)
		}}
		p.Policy(fast("search"))
		var hosts guard.Services
		p.Services("hosts", &hosts)
		hosts.For("a")
		o := override(control.Retries, "search", control.Off)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, p.Set(ended, o))
		set(t, &p, o)
		clear(t, &p, o.Target)
		o = override(control.Breakers, "hosts", "observe")
		o.Key, o.For = "a", time.Minute
		set(t, &p, o)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, `set retries of search ada drill
replaced retries of search ada drill
cleared retries of search bob over
set breakers of hosts a ada drill
expired breakers of hosts a ada drill
`, heard.String())
		require.Contains(t, logged.String(), `level=INFO msg=override control.change=set control.what=retries control.name=search control.to=off control.who=ada control.why=drill control.until=`)
		require.Contains(t, logged.String(), `control.change=expired control.what=breakers control.name=hosts control.key=a control.to=observe`)
	})
}

func TestAnObserverMayCallThePanel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p control.Panel
		var seen []int
		p.Observer = func(ctx context.Context, c control.Change) {
			seen = append(seen, len(p.Overrides()))
			if c.Kind == control.ChangeSet && c.Override.Name == control.All {
				require.NoError(t, p.Set(ctx, override(control.Retries, "search", control.On)))
			}
		}
		h := p.Policy(fast("search"))
		set(t, &p, override(control.Retries, control.All, control.Off))
		synctest.Wait()
		require.Equal(t, []int{1, 2}, seen)
		require.Equal(t, 4, attempts(h))
	})
}

func TestHedgesAreSwitchedOffAndOn(t *testing.T) {
	for name, budget := range map[string]backoff.Budget{"without a budget": nil, "with a budget": &limit.Concurrency{Max: 10}} {
		bubble(t, name, func(t *testing.T) {
			var p control.Panel
			hedged := &hedge.Hedge{Name: "read", Delay: time.Millisecond, MaxExtraLoad: -1, Budget: budget}
			p.Hedge(hedged)
			count := func() (n int) {
				var calls atomic.Int64
				_, err := hedge.Value(t.Context(), hedged, func(ctx context.Context) (int, error) {
					if calls.Add(1) == 2 {
						<-ctx.Done()
						return 0, ctx.Err()
					}
					time.Sleep(time.Second)
					return 0, nil
				}, nil)
				require.NoError(t, err)
				synctest.Wait()
				return int(calls.Load())
			}
			require.Equal(t, 2, count())
			set(t, &p, override(control.Hedges, "read", control.Off))
			require.Equal(t, 1, count())
			clear(t, &p, control.Target{What: control.Hedges, Name: "read"})
			require.Equal(t, 2, count())
		})
	}
}

// call makes a call under a breaker.
func call(b *backoff.Breaker) error {
	return b.Do(context.Background(), func(context.Context) error { return nil })
}

func TestABreakerIsForcedAndThenInItsOwnMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p control.Panel
		var states []string
		b := &backoff.Breaker{Name: "search", Observer: func(_ context.Context, e backoff.Event) {
			if e.Transition != nil {
				states = append(states, e.Transition.To.String()+fmt.Sprint(len(p.Overrides())))
			}
		}}
		b.Force(backoff.ModeObserve)
		p.Breaker(b)
		set(t, &p, during(time.Minute, override(control.Breakers, "search", "forced open")))
		require.ErrorIs(t, call(b), backoff.ErrOpen)
		set(t, &p, override(control.Breakers, control.All, "forced closed"))
		require.ErrorIs(t, call(b), backoff.ErrOpen, "the name takes precedence")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, call(b))
		require.Equal(t, backoff.ModeForcedClosed, b.Stats().Mode, "what is for all still holds")
		clear(t, &p, control.Target{What: control.Breakers, Name: control.All})
		require.Equal(t, backoff.ModeObserve, b.Stats().Mode)
		require.Equal(t, []string{"open1", "closed1"}, states, "its Observer may call the panel")
	})
}

// service is a breaker as most programs have it.
var service = backoff.Breaker{Name: "service"}

func TestABreakerThatIsAVariableOfAPackageIsForcedUntilTheProgramForcesIt(t *testing.T) {
	var p control.Panel
	p.Breaker(&service)
	o := override(control.Breakers, "service", "forced open")
	set(t, &p, o)
	require.ErrorIs(t, call(&service), backoff.ErrOpen)
	service.Force(backoff.ModeObserve)
	clear(t, &p, o.Target)
	require.Equal(t, backoff.ModeObserve, service.Stats().Mode)
}

// breakerOf returns the breaker of a key.
func breakerOf(s *guard.Services, key string) *backoff.Breaker {
	_, b := s.For(key).Parts()
	return b
}

func TestBreakersOfKeysThatAreNewObeyToo(t *testing.T) {
	var hosts guard.Services
	observer := func(context.Context, backoff.Event) { hosts.For("a") }
	for name, make := range map[string]func(string) *guard.Service{
		"made by the services":     nil,
		"of the program's service": func(string) *guard.Service { return &guard.Service{Observer: observer} },
		"made by the program":      func(string) *guard.Service { return &guard.Service{Breaker: &backoff.Breaker{Observer: observer}} },
	} {
		bubble(t, name, func(t *testing.T) {
			var p control.Panel
			hosts = guard.Services{New: make}
			p.Services("hosts", &hosts)
			a := breakerOf(&hosts, "a")
			_, ofTenant := hosts.For("a").Tenant("t").Parts()
			set(t, &p, override(control.Breakers, "hosts", "forced open"))
			b := breakerOf(&hosts, "b")
			require.ErrorIs(t, call(ofTenant), backoff.ErrOpen)
			require.Equal(t, make != nil, b.Observer != nil)
			require.ErrorIs(t, call(a), backoff.ErrOpen)
			require.ErrorIs(t, call(b), backoff.ErrOpen)
			o := override(control.Breakers, "hosts", "enforce")
			o.Key = "b"
			set(t, &p, o)
			require.ErrorIs(t, call(a), backoff.ErrOpen)
			require.NoError(t, call(b), "the key takes precedence")
			require.Equal(t, []control.Target{{What: control.Breakers, Name: "hosts"},
				{What: control.Breakers, Name: "hosts", Key: "a"}, {What: control.Breakers, Name: "hosts", Key: "b"}}, p.Targets())
			clear(t, &p, control.Target{What: control.Breakers, Name: "hosts"})
			require.NoError(t, call(a))
			clear(t, &p, o.Target)
			require.Equal(t, backoff.ModeEnforce, b.Stats().Mode)
		})
	}
}

// A Transport keeps the breaker of its last host, also if the registry has
// forgotten it.
func TestABreakerThatItsRegistryHasForgottenIsSetFreeToo(t *testing.T) {
	var p control.Panel
	hosts := guard.Services{MaxKeys: 1}
	p.Services("hosts", &hosts)
	set(t, &p, override(control.Breakers, "hosts", "forced open"))
	old := breakerOf(&hosts, "a")
	for i := range 10 {
		hosts.For(fmt.Sprint(i))
	}
	require.NotSame(t, old, breakerOf(&hosts, "a"))
	clear(t, &p, control.Target{What: control.Breakers, Name: "hosts"})
	require.NoError(t, call(old))
}

func TestAServiceWithoutABreakerHasNoneUnderAPanel(t *testing.T) {
	var p control.Panel
	hosts := guard.Services{New: func(key string) *guard.Service {
		return map[string]*guard.Service{"a": {NoBreaker: true}}[key]
	}}
	p.Services("hosts", &hosts)
	require.Nil(t, breakerOf(&hosts, "a"))
	require.Nil(t, hosts.For("b"))
	require.Equal(t, []control.Target{{What: control.Breakers, Name: "hosts"}}, p.Targets())
}

func TestASupervisorBeginsNoRunWhileRetriesAreOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p control.Panel
		var heard []backoff.EventKind
		policy := backoff.Policy{Name: "watch", Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter,
			Observer: func(_ context.Context, e backoff.Event) { heard = append(heard, e.Kind) }}
		h := p.Policy(policy)
		start, runs := time.Now(), []time.Duration(nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- h.Supervise(ctx, backoff.Supervisor{}, func(context.Context) error {
				runs = append(runs, time.Since(start))
				return errBusy
			})
		}()
		time.Sleep(1500 * time.Millisecond)
		set(t, &p, during(10*time.Second, override(control.Retries, "watch", control.Off)))
		time.Sleep(14 * time.Second)
		cancel()
		err := <-done
		require.Equal(t, []time.Duration{0, time.Second, 12500 * time.Millisecond, 13500 * time.Millisecond, 14500 * time.Millisecond}, runs[:5],
			"runs begin again a wait after retries are on")
		var gave *backoff.Error
		require.ErrorAs(t, err, &gave)
		require.Equal(t, backoff.ReasonCanceled, gave.Reason)
		require.Equal(t, []backoff.EventKind{backoff.EventGiveUp}, heard[len(heard)-1:])
		require.NotContains(t, heard[:len(heard)-1], backoff.EventGiveUp, "a pause is not an end")
	})
}

func TestThePauseOfSuperviseAndTheWaitAfterItEndWithTheContext(t *testing.T) {
	for pause, limit := range map[time.Duration]time.Duration{
		time.Hour:        time.Minute,
		10 * time.Second: 75 * time.Second, // from 10 s to 30 s it waits, and from 40 s on
	} {
		synctest.Test(t, func(t *testing.T) {
			p, h := panelOf(backoff.Policy{Name: "watch", Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter})
			o := during(pause, override(control.Retries, "watch", control.Off))
			set(t, p, o)
			time.AfterFunc(30*time.Second, func() { set(t, p, o) })
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			start := time.Now()
			err := h.Supervise(ctx, backoff.Supervisor{}, func(context.Context) error { t.Error("a run began"); return nil })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "backoff: watch: not started: ")
			require.Equal(t, limit, time.Since(start))
		})
	}
}

func TestAnOverrideThatIsReplacedAsItExpiresIsReplacedOnceOnly(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var last string
			p := control.Panel{Observer: func(_ context.Context, c control.Change) { last = c.Kind }}
			h := p.Policy(fast("search"))
			o := during(time.Second, override(control.Retries, "search", control.Off))
			set(t, &p, o)
			time.Sleep(time.Second)
			o.For = time.Minute
			set(t, &p, o)
			synctest.Wait()
			require.Equal(t, 1, attempts(h))
			require.Contains(t, []string{control.ChangeSet, control.ChangeReplaced}, last)
		})
	}
}

func TestASupervisorTakesANewSpecAtTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p control.Panel
		budget := &places{}
		h := p.Policy(backoff.Policy{Name: "watch", Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Budget: budget})
		start, runs := time.Now(), []time.Duration(nil)
		err := h.Supervise(t.Context(), backoff.Supervisor{MaxRuns: 3}, func(context.Context) error {
			runs = append(runs, time.Since(start))
			if len(runs) == 2 {
				set(t, &p, override(control.Spec, "watch", `{"schedule": "1m"}`))
			}
			return errBusy
		})
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 62 * time.Second, 122 * time.Second}, runs)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Zero(t, budget.held, "a run that did not begin gives its place back")
		require.Equal(t, 5, budget.failed, "and does not count")
	})
}

// places is a budget that counts.
type places struct {
	backoff.BudgetDefaults

	held, failed int
}

func (b *places) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.held++
	return backoff.Ticket{}, 0, true
}

func (b *places) Done(_ backoff.Ticket, r backoff.Result) {
	b.held--
	if r.String() == "failed" {
		b.failed++
	}
}

func TestARunThatIsUnderWayGoesOnWhenRetriesAreSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := panelOf(backoff.Policy{Name: "watch"})
		err := h.Supervise(t.Context(), backoff.Supervisor{}, func(ctx context.Context) error {
			set(t, p, override(control.Retries, control.All, control.Off))
			time.Sleep(time.Minute)
			require.NoError(t, ctx.Err())
			return backoff.Permanent(errBusy)
		})
		require.ErrorIs(t, err, errBusy)
	})
}

func TestChangesWhileCallsRun(t *testing.T) {
	p, h := panelOf(fast("search"))
	b := &backoff.Breaker{Name: "search"}
	p.Breaker(b)
	hosts := guard.Services{}
	p.Services("hosts", &hosts)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if got := attempts(h); got != 1 && got != 2 && got != 4 {
					t.Errorf("%d attempts", got)
				}
				_ = call(b)
				_ = call(breakerOf(&hosts, fmt.Sprint(i, n%10)))
				policy, final := h.Current()
				if (policy.MaxAttempts == 1) != (final != nil) {
					t.Error("half of a change")
				}
			}
		})
	}
	for i := range 40 {
		set(t, p, override(control.Retries, control.All, control.Off))
		set(t, p, override(control.Breakers, control.All, []string{"forced open", "observe"}[i%2]))
		set(t, p, override(control.Spec, "search", `{"maxAttempts": 2}`))
		for _, o := range p.Overrides() {
			clear(t, p, o.Target)
		}
	}
	close(stop)
	wg.Wait()
	require.Equal(t, 4, attempts(h))
	require.Equal(t, backoff.ModeEnforce, b.Stats().Mode)
	for key, s := range hosts.All() {
		require.Equal(t, backoff.ModeEnforce, s.State().Breaker.Mode, key)
	}
}

func TestWhatTwoPeopleDoAtOnceIsOneAfterTheOther(t *testing.T) {
	var holds, wrong int
	var last string
	p := control.Panel{Observer: func(_ context.Context, c control.Change) {
		switch {
		case c.Kind == control.ChangeSet && holds == 0:
			holds, last = 1, c.Override.To
		case c.Kind == control.ChangeReplaced && holds == 1:
			last = c.Override.To
		case c.Kind == control.ChangeCleared && holds == 1 && c.Override.To == last:
			holds = 0
		default:
			wrong++
		}
	}}
	b := &backoff.Breaker{Name: "search"}
	p.Breaker(b)
	var people sync.WaitGroup
	for i, to := range []string{"forced open", "forced closed", "observe"} {
		people.Go(func() {
			o := override(control.Breakers, "search", to)
			for n := range 300 {
				if (n+i)%3 == 0 {
					_ = p.Clear(t.Context(), o.Target, "bob", "over") // another goroutine may have cleared it
					continue
				}
				set(t, &p, o)
			}
		})
	}
	people.Wait()
	set(t, &p, override(control.Breakers, "search", "observe"))
	require.Equal(t, backoff.ModeObserve, b.Stats().Mode)
	clear(t, &p, control.Target{What: control.Breakers, Name: "search"})
	require.Zero(t, wrong)
	require.Zero(t, holds)
	require.Equal(t, backoff.ModeEnforce, b.Stats().Mode)
}

// A model of the panel: what holds is a list of overrides with their ends. A name
// takes precedence over all, and a new override takes the place of an earlier one.
func TestThePanelDoesWhatAListOfOverridesSays(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var p control.Panel
			names := []string{"a", "b"}
			handles, breakers := map[string]*control.Handle{}, map[string]*backoff.Breaker{}
			for _, name := range names {
				handles[name], breakers[name] = p.Policy(fast(name)), &backoff.Breaker{Name: name}
				p.Breaker(breakers[name])
			}
			model := map[control.Target]control.Override{}
			for range 60 {
				choices := []control.Override{
					override(control.Retries, control.All, control.Off), override(control.Retries, "a", control.Off), override(control.Retries, "b", control.On),
					override(control.Spec, "a", `{"maxAttempts": 2}`), override(control.Spec, "a", `{"maxAttempts": 3}`),
					override(control.Breakers, control.All, "forced open"), override(control.Breakers, "a", "observe"), override(control.Breakers, "b", "forced closed"),
				}
				o := choices[random.IntN(len(choices))]
				switch random.IntN(3) {
				case 0:
					o.For = time.Duration(1+random.IntN(100)) * time.Second
					o.Until = time.Now().Add(o.For)
					set(t, &p, o)
					model[o.Target] = o
				case 1:
					_, there := model[o.Target]
					require.Equal(t, there, p.Clear(t.Context(), o.Target, "bob", "over") == nil)
					delete(model, o.Target)
				default:
					time.Sleep(time.Duration(random.IntN(30)) * time.Second)
					synctest.Wait()
					for target, o := range model {
						if !o.Until.After(time.Now()) {
							delete(model, target)
						}
					}
				}
				require.Len(t, p.Overrides(), len(model))
				for _, name := range names {
					require.Equal(t, wantAttempts(model, name), attempts(handles[name]), "seed %d", seed)
					require.Equal(t, wantMode(model, name), breakers[name].Stats().Mode.String(), "seed %d", seed)
				}
			}
		})
	}
}

// toOf returns what the model says of a name, or a default.
func toOf(model map[control.Target]control.Override, what, name, otherwise string) string {
	for _, name := range []string{name, control.All} {
		if o, ok := model[control.Target{What: what, Name: name}]; ok {
			return o.To
		}
	}
	return otherwise
}

func wantAttempts(model map[control.Target]control.Override, name string) int {
	if toOf(model, control.Retries, name, control.On) == control.Off {
		return 1
	}
	return map[string]int{`{"maxAttempts": 2}`: 2, `{"maxAttempts": 3}`: 3, "": 4}[toOf(model, control.Spec, name, "")]
}

func wantMode(model map[control.Target]control.Override, name string) string {
	return toOf(model, control.Breakers, name, "enforce")
}

func TestACallThatSucceedsAllocatesNothing(t *testing.T) {
	p, h := panelOf(fast("search"))
	ctx := t.Context()
	check := func() {
		t.Helper()
		n := 0
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = h.Do(ctx, func(context.Context) error { n++; return nil })
		}))
		require.Equal(t, 101, n)
	}
	check()
	set(t, p, override(control.Retries, control.All, control.Off))
	check()
}

// A webhook that never answers must not keep the person on call from acting.
func TestAnObserverThatHangsHoldsNoChangeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var told []string
		p := control.Panel{Observer: func(_ context.Context, c control.Change) {
			<-release
			told = append(told, c.Kind+" "+c.Override.To)
		}}
		h, b := p.Policy(fast("search")), &backoff.Breaker{Name: "search"}
		p.Breaker(b)
		o := during(time.Minute, override(control.Breakers, "search", "forced open"))
		go func() { _ = p.Set(context.Background(), o) }()
		synctest.Wait()
		require.ErrorIs(t, call(b), backoff.ErrOpen)
		o.To = "forced closed"
		set(t, &p, o)
		require.NoError(t, call(b))
		set(t, &p, override(control.Retries, "search", control.Off))
		require.Equal(t, 1, attempts(h))
		late := &backoff.Breaker{Name: "search"}
		p.Breaker(late)
		require.Equal(t, backoff.ModeForcedClosed, late.Stats().Mode)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, backoff.ModeEnforce, b.Stats().Mode)
		close(release)
		synctest.Wait()
		require.Equal(t, []string{"set forced open", "replaced forced closed", "set off", "expired forced closed"}, told, "in order")
	})
}

func TestWhatChangesNothingForAPolicyDoesNotBeginItsScheduleAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := panelOf(backoff.Policy{Name: "watch", Schedule: backoff.Linear{Initial: time.Second}, Jitter: backoff.NoJitter})
		set(t, p, override(control.Retries, "watch", control.On))
		policy, start, runs := h.Policy(), time.Now(), []time.Duration(nil)
		err := h.Supervise(t.Context(), backoff.Supervisor{MaxRuns: 4}, func(context.Context) error {
			runs = append(runs, time.Since(start))
			set(t, p, override(control.Retries, control.All, control.Off))
			if len(runs) > 9 {
				return backoff.Permanent(errBusy)
			}
			return errBusy
		})
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second}, runs)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Same(t, policy, h.Policy(), "clients prepare a policy once, as long as it is the same")
	})
}

func TestTheBudgetOfAPolicyGoesOnWhereItWasAfterASpecWithAnother(t *testing.T) {
	var p control.Panel
	budget := &places{}
	policy := fast("search")
	policy.Budget = budget
	h, twin := p.Policy(policy), p.Policy(policy)
	require.Equal(t, 4, attempts(h))
	set(t, &p, override(control.Spec, "search", `{"budget": {"retry": {}}}`))
	attempts(h)
	require.Equal(t, 4, budget.failed)
	require.Same(t, h.Policy().Budget, twin.Policy().Budget, "policies of one name share the new one")
	clear(t, &p, control.Target{What: control.Spec, Name: "search"})
	attempts(h)
	require.Equal(t, 8, budget.failed)
}

func TestAnObserverThatPanicsDoesNotEndTheProgram(t *testing.T) {
	told := 0
	p := control.Panel{Observer: func(context.Context, control.Change) {
		told++
		panic("broken")
	}}
	h := p.Policy(backoff.Policy{Name: "search"})
	off := override(control.Retries, "search", control.Off)
	set(t, &p, off)
	require.Equal(t, 1, h.Policy().MaxAttempts)
	clear(t, &p, off.Target)
	require.Equal(t, 2, told)
}
