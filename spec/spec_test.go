package spec_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/shape"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/limit/adaptive"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/presets"
	"github.com/gobackoff/backoff/spec"
)

func parse(t *testing.T, text string) spec.Spec {
	t.Helper()
	s, err := spec.Parse([]byte(text))
	require.NoError(t, err)
	return s
}

// policyOf returns the policy of a Spec that may have a breaker.
func policyOf(t *testing.T, s spec.Spec) backoff.Policy {
	t.Helper()
	_, policy, err := s.Service()
	require.NoError(t, err)
	return policy
}

func breakerOf(t *testing.T, s spec.Spec) *backoff.Breaker {
	t.Helper()
	service, _, err := s.Service()
	require.NoError(t, err)
	budget, breaker := service.Parts()
	require.Nil(t, budget, "it is that of the policy")
	return breaker
}

func budgetOf(t *testing.T, s spec.Spec) backoff.Budget {
	t.Helper()
	return policyOf(t, s).Budget
}

func TestAnEmptyObjectIsTheZeroPolicy(t *testing.T) {
	s := parse(t, `{}`)
	policy, err := s.Policy()
	require.NoError(t, err)
	require.Equal(t, backoff.Policy{}, policy)
	require.Nil(t, budgetOf(t, s))
	require.Nil(t, breakerOf(t, s))
	require.Equal(t, backoff.Policy{}, policyOf(t, s))
}

func TestAFileSaysWhatTheLiteralSays(t *testing.T) {
	s := parse(t, `{
		"name": "fetch", "maxAttempts": 7, "maxElapsed": "30s", "attemptTimeout": "2s",
		"schedule": {"exponential": {"initial": "50ms", "max": "10s", "multiplier": 3}},
		"maxDelay": "12s", "maxRetryAfter": -1, "idempotency": "nonIdempotent", "shortenLastWait": true,
		"budget": {"retry": {"ratio": 0.1}}
	}`)
	require.Equal(t, backoff.Policy{
		Name:            "fetch",
		MaxAttempts:     7,
		MaxElapsed:      30 * time.Second,
		AttemptTimeout:  2 * time.Second,
		Schedule:        backoff.Exponential{Initial: 50 * time.Millisecond, Max: 10 * time.Second, Multiplier: 3},
		MaxDelay:        12 * time.Second,
		MaxRetryAfter:   -1,
		Idempotency:     backoff.NonIdempotent,
		ShortenLastWait: true,
		Budget:          &backoff.RetryBudget{Ratio: 0.1},
	}, policyOf(t, s))
}

func TestEveryScheduleCanBeWritten(t *testing.T) {
	for text, want := range map[string]backoff.Schedule{
		`"0s"`:           backoff.Constant(0),
		`"1.5s"`:         backoff.Constant(1500 * time.Millisecond),
		`{"linear": {}}`: backoff.Linear{},
		`{"linear": {"initial": "1s", "step": "2s", "max": -1}}`: backoff.Linear{Initial: time.Second, Step: 2 * time.Second, Max: -1},
		`{"exponential": {"multiplier": 1.6}}`:                   backoff.Exponential{Multiplier: 1.6},
		`{"sequence": ["0s", "51.2us", "1h"]}`:                   backoff.Sequence(0, 51200, time.Hour),
		`{"truncated": {"max": "3s"}}`:                           shape.Truncated(nil, 3*time.Second),
		`{"truncated": {"schedule": {"linear": {}}, "max": -1}}`: shape.Truncated(backoff.Linear{}, -1),
		`{"truncated": {"schedule": {"truncated": {}}}}`:         shape.Truncated(shape.Truncated(nil, 0), 0),
	} {
		require.Equal(t, want, policyOf(t, parse(t, `{"schedule":`+text+`}`)).Schedule, text)
		require.Equal(t, want, policyOf(t, parse(t, `{"attemptTimeoutSchedule":`+text+`}`)).AttemptTimeoutSchedule, text)
		require.Equal(t, want, breakerOf(t, parse(t, `{"breaker":{"openFor":`+text+`}}`)).OpenFor, text)
	}
}

func TestEveryClassThatMayBeRetriedCanHaveItsLimits(t *testing.T) {
	for text, want := range map[string]map[backoff.Class]backoff.ClassLimits{
		`{}`:              nil,
		`{"unknown": {}}`: {backoff.ClassUnknown: {}},
		`{"throttled": {"maxAttempts": 10, "schedule": {"exponential": {"initial": "1s", "max": "20s"}}}}`: {
			backoff.ClassThrottled: {MaxAttempts: 10, Schedule: backoff.Exponential{Initial: time.Second, Max: 20 * time.Second}},
		},
		`{"notSent": {"schedule": "0s"}, "retryable": {"maxAttempts": -1}}`: {
			backoff.ClassNotSent: {Schedule: backoff.Constant(0)}, backoff.ClassRetryable: {MaxAttempts: -1},
		},
	} {
		s := parse(t, `{"byClass": `+text+`}`)
		require.Equal(t, want, policyOf(t, s).ByClass, text)
		if want != nil {
			policyOf(t, s).ByClass[backoff.ClassThrottled] = backoff.ClassLimits{MaxAttempts: 99}
			require.Equal(t, want, policyOf(t, s).ByClass, "each policy has a map of its own")
		}
	}
	for c := backoff.ClassUnknown; c < 255; c++ { // so that a new class is not forgotten here
		policy := backoff.Policy{ByClass: map[backoff.Class]backoff.ClassLimits{c: {}}}
		name := strings.ReplaceAll(c.String(), "not sent", "notSent")
		_, err := spec.Parse([]byte(`{"byClass": {"` + name + `": {}}}`))
		require.Equal(t, policy.Validate() == nil, err == nil, c)
	}
}

func TestEveryJitterCanBeWritten(t *testing.T) {
	for text, want := range map[string]backoff.Jitter{
		`"none"`:               backoff.NoJitter,
		`"full"`:               backoff.FullJitter,
		`"equal"`:              backoff.EqualJitter,
		`{"decorrelated": {}}`: backoff.DecorrelatedJitter(0, 0),
		`{"decorrelated": {"base": "10ms", "max": -1}}`:  backoff.DecorrelatedJitter(10*time.Millisecond, -1),
		`{"uniform": {"low": 0.8, "high": 1.2}}`:         backoff.UniformJitter(0.8, 1.2),
		`{"uniform": {"high": 0.5}}`:                     backoff.UniformJitter(0, 0.5),
		`{"added": "1s"}`:                                shape.Added(time.Second),
		`{"slotted": "51200ns"}`:                         shape.Slotted(51200),
		`{"decorrelated": {"base": "1s", "max": "40s"}}`: backoff.DecorrelatedJitter(time.Second, 40*time.Second),
	} {
		for _, got := range []backoff.Jitter{
			policyOf(t, parse(t, `{"jitter":`+text+`}`)).Jitter,
			policyOf(t, parse(t, `{"byClass":{"throttled":{"jitter":`+text+`}}}`)).ByClass[backoff.ClassThrottled].Jitter,
			breakerOf(t, parse(t, `{"breaker":{"jitter":`+text+`}}`)).Jitter,
		} {
			for _, u := range []float64{0, 0.25, 0.999} {
				require.Equal(t, want(time.Minute, 3*time.Second, u), got(time.Minute, 3*time.Second, u), text)
			}
		}
	}
}

func TestEveryIdempotencyCanBeWritten(t *testing.T) {
	for text, want := range map[string]backoff.Idempotency{
		"idempotent": backoff.Idempotent, "nonIdempotent": backoff.NonIdempotent, "keyed": backoff.Keyed,
	} {
		require.Equal(t, want, policyOf(t, parse(t, `{"idempotency":"`+text+`"}`)).Idempotency)
	}
}

func TestEveryBudgetCanBeWritten(t *testing.T) {
	for text, want := range map[string]backoff.Budget{
		`{"retry": {}}`: &backoff.RetryBudget{},
		`{"retry": {"ratio": 0.2, "window": "1m", "floor": 10}}`:                &backoff.RetryBudget{Ratio: 0.2, Window: time.Minute, Floor: 10},
		`{"pacer": {"ratio": 0.2, "window": "1m", "floor": 10, "maxWait": -1}}`: newPacer(),
		`{"throttle": {"k": 1.1, "window": "2m", "pad": 1, "maxReject": 0.9}}`:  &limit.Throttle{K: 1.1, Window: 2 * time.Minute, Pad: 1, MaxReject: 0.9},
		`{"rate": {"limit": 10}}`:                                         &limit.Rate{Limiter: rate.NewLimiter(10, 1)},
		`{"rate": {"limit": 0.5, "tokens": 3, "retriesOnly": true}}`:      &limit.Rate{Limiter: rate.NewLimiter(0.5, 3), Tokens: 3, RetriesOnly: true},
		`{"rate": {"limit": 10, "burst": 20}}`:                            &limit.Rate{Limiter: rate.NewLimiter(10, 20)},
		`{"concurrency": {"max": -1}}`:                                    &limit.Concurrency{Max: -1},
		`{"adaptive": {}}`:                                                &adaptive.Limit{},
		`{"grpcThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`:        presets.NewGRPCThrottling(),
		`{"all": [{"retry": {}}, "aws-retry-quota", {"concurrency":{}}]}`: backoff.JoinBudgets(&backoff.RetryBudget{}, presets.NewAWSQuota(), &limit.Concurrency{}),
	} {
		s := parse(t, `{"budget":`+text+`}`)
		require.Equal(t, want, budgetOf(t, s), text)
	}
}

func newPacer() *pace.Pacer {
	p := &pace.Pacer{MaxWait: -1}
	p.Ratio, p.Window, p.Floor = 0.2, time.Minute, 10
	return p
}

func TestEveryPresetBudgetCanBeNamed(t *testing.T) {
	for name, want := range presets.Budgets() {
		require.Equal(t, want, budgetOf(t, parse(t, `{"budget":"`+name+`"}`)))
	}
}

// Every field that is data has a member, so that a new field is not forgotten
// here.
func TestNoFieldIsForgotten(t *testing.T) {
	for _, c := range []struct {
		of    any
		text  string // in which the member is to stand
		other string // fields that are code, or go by another way
	}{
		{backoff.Policy{}, `{%}`, " Classify Observer Rand "},
		{backoff.ClassLimits{}, `{"byClass":{"throttled":{%}}}`, ""},
		{backoff.Breaker{}, `{"breaker":{%}}`, " Name TripIf Classify Observer Shared Rand "},
		{backoff.Linear{}, `{"schedule":{"linear":{%}}}`, ""},
		{backoff.Exponential{}, `{"schedule":{"exponential":{%}}}`, ""},
		{backoff.RetryBudget{}, `{"budget":{"retry":{%}}}`, ""},
		{limit.Throttle{}, `{"budget":{"throttle":{%}}}`, " Rand "},
		{pace.Pacer{}, `{"budget":{"pacer":{%}}}`, ""},
		{limit.Rate{}, `{"budget":{"rate":{%}}}`, " Limiter "},
		{limit.Concurrency{}, `{"budget":{"concurrency":{%}}}`, ""},
		{adaptive.Limit{}, `{"budget":{"adaptive":{%}}}`, ""},
		{presets.GRPCThrottling{}, `{"budget":{"grpcThrottling":{%}}}`, ""},
	} {
		of := reflect.TypeOf(c.of)
		for i := range of.NumField() {
			f := of.Field(i)
			if !f.IsExported() || f.Anonymous || strings.Contains(c.other, " "+f.Name+" ") {
				continue
			}
			member := strings.ToLower(f.Name[:1]) + f.Name[1:]
			_, err := spec.Parse([]byte(strings.Replace(c.text, "%", `"`+member+`": null`, 1)))
			require.ErrorContains(t, err, member+" is null, want ", "%s.%s", of, f.Name)
		}
	}
}

func TestEveryMemberOfABreakerReachesIt(t *testing.T) {
	s := parse(t, `{"name": "search", "breaker": {
		"failureRate": -1, "minCalls": 3, "window": -1, "windowCalls": 5, "consecutiveFailures": 6, "consecutiveSpan": "7s",
		"slowCall": "8s", "slowRate": 0.9, "openFor": "10s", "maxRetryAfter": "11s", "maxProbes": 12,
		"probeSuccesses": 13, "probeTimeout": "14s", "rampUp": "15s", "minAttemptTime": "16s"
	}}`)
	require.Equal(t, &backoff.Breaker{
		Name: "search", FailureRate: -1, MinCalls: 3, Window: -1, WindowCalls: 5, ConsecutiveFailures: 6, ConsecutiveSpan: 7 * time.Second,
		SlowCall: 8 * time.Second, SlowRate: 0.9, OpenFor: backoff.Constant(10 * time.Second), MaxRetryAfter: 11 * time.Second,
		MaxProbes: 12, ProbeSuccesses: 13, ProbeTimeout: 14 * time.Second, RampUp: 15 * time.Second, MinAttemptTime: 16 * time.Second,
	}, breakerOf(t, s))
}

// A process that makes two policies of a file must not have one budget for both
// unless it says so; and a simulated fleet must not share one at all.
func TestWhatHasAStateIsNewEachTime(t *testing.T) {
	s := parse(t, `{"budget": {"all": [{"retry": {"floor": 1}}, {"rate": {"limit": 0.001}}]}, "breaker": {}}`)
	one, other := policyOf(t, s), policyOf(t, s)
	_, _, _ = one.Budget.Reserve(backoff.Attempt{Number: 1})
	_, wait, _ := one.Budget.Reserve(backoff.Attempt{Number: 1})
	require.Positive(t, wait)
	_, wait, _ = other.Budget.Reserve(backoff.Attempt{Number: 1})
	require.Zero(t, wait)
	_, wait, _ = budgetOf(t, s).Reserve(backoff.Attempt{Number: 1})
	require.Zero(t, wait)

	breaker := breakerOf(t, s)
	breaker.Trip()
	require.Equal(t, backoff.BreakerClosed, breakerOf(t, s).State())
}

func TestAServiceIsTheBreakerAroundThePolicyAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, ctx := 0, guard.WithFailFast(t.Context())
		down := func(context.Context) error { attempts++; return errors.New("down") }
		service, policy, err := parse(t, `{"name": "fetch", "maxAttempts": 2, "schedule": "1s", "jitter": "none", "breaker": {"consecutiveFailures": 3}}`).Service()
		require.NoError(t, err)
		for range 3 {
			require.ErrorIs(t, service.Do(ctx, policy, down), backoff.ErrExhausted)
		}
		err = service.Do(ctx, policy, down)
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorContains(t, err, "fetch")
		require.Equal(t, 6, attempts)

		service, policy, err = parse(t, `{"maxAttempts": 2, "schedule": "1s"}`).Service()
		require.NoError(t, err)
		for range 40 {
			require.ErrorIs(t, service.Do(ctx, policy, down), backoff.ErrExhausted)
		}
	})
}

func TestASpecMayBePartOfALargerFile(t *testing.T) {
	var config struct {
		Fetch, Store spec.Spec
	}
	require.NoError(t, json.Unmarshal([]byte(`{"fetch": {"maxAttempts": 2}, "store": {"maxAttempts": -1}}`), &config))
	require.Equal(t, 2, policyOf(t, config.Fetch).MaxAttempts)
	require.Equal(t, -1, policyOf(t, config.Store).MaxAttempts)

	err := json.Unmarshal([]byte(`{"fetch": {"schedule": {"linear": {"steps": 2}}}}`), &config)
	require.EqualError(t, err, "backoff: spec: schedule.linear.steps is not known, did you mean step?")
	require.Equal(t, 2, policyOf(t, config.Fetch).MaxAttempts, "what was there is kept")

	err = json.Unmarshal([]byte(`{"store": {"name": "carts\n", "schedule": -1, "jitter": {"added": -1}}}`), &config)
	require.EqualError(t, err, `backoff: spec: "carts\n": schedule is -1, want 0 or more`+"\n"+`backoff: spec: "carts\n": jitter.added is -1, want 0 or more`)
}

func TestAnAbsentMemberIsWrittenAsNothing(t *testing.T) {
	for text, want := range map[string]string{
		`{"maxAttempts": 0, "maxElapsed": "0s"}`:                                `{}`,
		`{"$schema": "https://example.com/x.json", "version": 1}`:               `{}`,
		`{"breaker": {}, "budget": {"retry": {}}, "schedule": "0s"}`:            `{"schedule":"0s","budget":{"retry":{}},"breaker":{}}`,
		`{"schedule": {"exponential": {"initial": "90s", "max": -1}}}`:          `{"schedule":{"exponential":{"initial":"1m30s","max":-1}}}`,
		`{"jitter": {"added": "0.5s"}, "attemptTimeout": "1000ms"}`:             `{"attemptTimeout":"1s","jitter":{"added":"500ms"}}`,
		`{"budget": {"all": [{"concurrency": {"max": 0}}, "aws-retry-quota"]}}`: `{"budget":{"all":[{"concurrency":{}},"aws-retry-quota"]}}`,
		`{"byClass": {"throttled": {"maxAttempts": 0}}}`:                        `{"byClass":{"throttled":{}}}`,
		`{"breaker": {"jitter": "none", "openFor": {"sequence": ["5s"]}}}`:      `{"breaker":{"openFor":{"sequence":["5s"]},"jitter":"none"}}`,
	} {
		got, err := json.Marshal(parse(t, text))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestASpecThatNothingWasDecodedIntoMakesNothing(t *testing.T) {
	const want = "backoff: spec: no policy was decoded; write {} for the defaults"
	var s spec.Spec
	_, err := s.Policy()
	require.EqualError(t, err, want)
	service, _, err := s.Service()
	require.EqualError(t, err, want)
	require.Nil(t, service)
	_, err = s.MarshalText()
	require.EqualError(t, err, want)
	_, err = json.Marshal(s)
	require.ErrorContains(t, err, want)
}

// decoded is what a YAML library has decoded. Its own error is not changed.
func decoded(value any, err error) func(any) error {
	return func(into any) error {
		*into.(*any) = value
		return err
	}
}

// The real libraries are tested in internal/lab/spectest.
func TestAYAMLValueIsReadAsJSONIs(t *testing.T) {
	for _, value := range []any{
		map[string]any{"maxAttempts": 3, "schedule": map[any]any{"sequence": []any{"1s", "2s"}}},
		map[any]any{"maxAttempts": 3.0, "schedule": map[string]any{"sequence": []any{"1s", "2s"}}},
		" {\"maxAttempts\": 3, \"schedule\": {\"sequence\": [\"1s\", \"2s\"]}}\n",
	} {
		var s spec.Spec
		require.NoError(t, s.UnmarshalYAML(decoded(value, nil)))
		require.Equal(t, parse(t, `{"maxAttempts": 3, "schedule": {"sequence": ["1s", "2s"]}}`), s)
	}
}

func TestAYAMLValueThatIsRefusedLeavesTheSpecAsItWas(t *testing.T) {
	loop := map[string]any{}
	loop["again"] = loop
	own := errors.New("line 2: mapping key is there twice")
	for want, decode := range map[string]func(any) error{
		own.Error(): decoded(nil, own),
		"backoff: spec: the policy has more than 100000 values":                         decoded(loop, nil),
		"backoff: spec: the policy is null, want an object":                             decoded(nil, nil),
		"backoff: spec: the policy is \"fast\", want an object":                         decoded("fast", nil),
		"backoff: spec: shortenLastWait is \"yes\", want true or false":                 decoded(map[string]any{"shortenLastWait": "yes"}, nil),
		"backoff: spec: version is 2, want 1, the only version that this release reads": decoded(map[any]any{"version": 2}, nil),
	} {
		s := parse(t, `{"maxAttempts": 3}`)
		require.EqualError(t, s.UnmarshalYAML(decode), want)
		require.Equal(t, 3, policyOf(t, s).MaxAttempts)
	}
}

func TestAFlagShowsItsDefaultAndRefusesAMistake(t *testing.T) {
	s := parse(t, `{"maxAttempts": 3}`)
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&s, "retry", s, "")
	require.Equal(t, `{"maxAttempts":3}`, flags.Lookup("retry").DefValue)
	require.ErrorContains(t, flags.Parse([]string{"-retry", `{"maxAttempt": 4}`}), "backoff: spec: maxAttempt is not known")
	require.NoError(t, flags.Parse([]string{"-retry", `{"maxAttempts": 4}`}))
	require.Equal(t, 4, policyOf(t, s).MaxAttempts)
}
