package spec_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/spec"
)

// Each text stands before the problem for which it is refused.
func TestAPolicyIsRefused(t *testing.T) {
	for what, cases := range map[string][]string{
		"no JSON, with its place": {
			"", `line 1, column 1: unexpected end of JSON input`,
			"{\n", `line 1, column 2: unexpected end of JSON input`,
			"{\n  \"name\": \"x\",\n}", `line 3, column 1: invalid character '}' looking for beginning of object key string`,
			"{}\n{}", `line 2, column 1: invalid character '{' after top-level value`,
			" ", `line 1, column 1: unexpected end of JSON input`,
			"name: fetch", `line 1, column 2: invalid character 'a' in literal null (expecting 'u'); Parse reads JSON only: unmarshal YAML into a Spec`,
			"# a policy\nname: fetch", `line 1, column 1: invalid character '#' looking for beginning of value; Parse reads JSON only: unmarshal YAML into a Spec`,
		},
		"a wrong type, with path and value": {
			`3`, `the policy is 3, want an object`,
			`null`, `the policy is null, want an object`,
			`[]`, `the policy is a list, want an object`,
			`{"name": 1}`, `name is 1, want a text`,
			`{"name": null}`, `name is null, want a text`,
			`{"shortenLastWait": 1}`, `shortenLastWait is 1, want true or false`,
			`{"maxAttempts": "four"}`, `maxAttempts is "four", want a whole number of 0 or more, or -1 for no limit`,
			`{"maxAttempts": 4.5}`, `maxAttempts is 4.5, want a whole number of 0 or more, or -1 for no limit`,
			`{"maxElapsed": 30}`, `maxElapsed is 30, want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
			`{"maxElapsed": "30"}`, `maxElapsed is "30", want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
			`{"schedule": {"linear": "1s"}}`, `schedule.linear is "1s", want an object`,
			`{"schedule": {"exponential": {"multiplier": "2"}}}`, `schedule.exponential.multiplier is "2", want a number of 0 or more, or -1 for none`,
			`{"schedule": {"sequence": "1s"}}`, `schedule.sequence is "1s", want a list`,
			`{"schedule": {"sequence": ["1s", 2]}}`, `schedule.sequence[1] is 2, want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
			`{"schedule": []}`, `schedule is a list, want a duration of 0 or more, such as "1.5s", or an object with one of linear, exponential, sequence, truncated`,
			`{"jitter": 0.2}`, `jitter is 0.2, want none, full, equal, or an object with one of decorrelated, uniform, added, slotted`,
			`{"breaker": true}`, `breaker is true, want an object`,
			`{"name": {"x": 1}}`, `name is an object, want a text`,
		},
		"an unknown member, with those there are": {
			`{"schedule": {"exponential": {"multiplyer": 2}}}`, `schedule.exponential.multiplyer is not known, did you mean multiplier?`,
			`{"schedule": {"Linear": {}}}`, `schedule.Linear is not known, did you mean linear?`,
			`{"max_attempts": 3}`, `max_attempts is not known, did you mean maxAttempts?`,
			`{"MaxRetry-After": 3}`, `MaxRetry-After is not known, did you mean maxRetryAfter?`,
			`{"shedule": "1s"}`, `shedule is not known, did you mean schedule?`,
			`{"breaker": {"rate": 1}}`, `breaker.rate is not known, want one of failureRate, minCalls, window, windowCalls, consecutiveFailures, consecutiveSpan, slowCall, slowRate, openFor, jitter, maxRetryAfter, maxProbes, probeSuccesses, probeTimeout, rampUp, minAttemptTime`,
			`{"budget": {"adaptive": {"max": 1}}}`, `budget.adaptive.max is not known, want no members`,
			`{"budget": {"throttle": {"p": 1}}}`, `budget.throttle.p is not known, want one of k, window, pad, maxReject`,
			`{"schedule": {"constant": "1s"}}`, `schedule.constant is not known: write a constant schedule as a duration such as "1.5s"`,
			`{"breaker": {"openFor": {"constant": "1s"}}}`, `breaker.openFor.constant is not known: write a constant schedule as a duration such as "1.5s"`,
			`{"jitter": {"constant": "1s"}}`, `jitter.constant is not known, want one of decorrelated, uniform, added, slotted`,
			`{"budget": {"all": [{"retry": {"\n": 1}}]}}`, `budget.all[0].retry."\n" is not known, want one of ratio, window, floor`,
			`{"budget": {"concurrency": {"-": 1}}}`, `budget.concurrency.- is not known, want one of max`,
			`{"jitter": "fully"}`, `jitter is "fully", want none, full, equal, or an object with one of decorrelated, uniform, added, slotted`,
			`{"idempotency": "maybe"}`, `idempotency is "maybe", want one of idempotent, nonIdempotent, keyed`,
		},
		"a dash, which is the tag of fields that are not in JSON": {
			`{"jitter": {"-": "unheard"}}`, `jitter.- is not known, want one of decorrelated, uniform, added, slotted`,
			`{"schedule": {"-": "1s"}}`, `schedule.- is not known, want one of linear, exponential, sequence, truncated`,
			`{"budget": {"-": "aws-retry-quota"}}`, `budget.- is not known, want one of retry, pacer, throttle, rate, concurrency, adaptive, grpcThrottling, all`,
		},
		"a schedule in attemptTimeout, or beside it": {
			`{"attemptTimeout": {"linear": {}}}`, `attemptTimeout is an object, want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
			`{"attemptTimeout": "2s", "attemptTimeoutSchedule": {"linear": {}}}`, `attemptTimeout is 2s beside an AttemptTimeoutSchedule, want one of them`,
		},
		"what is there twice": {
			`{"maxAttempts": 3, "maxAttempts": 3}`, `maxAttempts is there twice`,
			`{"breaker": {"consecutiveFailures": 3, "maxProbes": 1, "consecutiveFailures": 4}}`, `breaker.consecutiveFailures is there twice`,
			`{"schedule": {"linear": {}, "exponential": {}}}`, `schedule has linear and exponential, want one of linear, exponential, sequence, truncated`,
			`{"jitter": {"added": "1s", "slotted": "1s"}}`, `jitter has added and slotted, want one of decorrelated, uniform, added, slotted`,
		},
		"of a class all but its limits": {
			`{"byClass": {"permanent": {}}}`, `byClass.permanent is not known, want one of unknown, notSent, retryable, throttled`,
			`{"byClass": {"not sent": {}}}`, `byClass."not sent" is not known, did you mean notSent?`,
			`{"byClass": {"throttled": {"maxElapsed": "1s"}}}`, `byClass.throttled.maxElapsed is not known, want one of schedule, maxAttempts, jitter`,
			`{"byClass": {"throttled": "1s"}}`, `byClass.throttled is "1s", want an object`,
			`{"byClass": {"notSent": {"schedule": {"exponential": {"multiplier": 0.5}}}}}`, `byClass.notSent.schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1`,
			`{"byClass": {"unknown": {"jitter": {"added": -1}}}}`, `byClass.unknown.jitter.added is -1, want 0 or more`,
			`{"byClass": {"retryable": {"schedule": {"truncated": {"schedule": {"linear": {"initial": -1}}}}}}}`, `byClass.retryable.schedule.truncated.schedule.linear.initial is -1, want 0 or more`,
		},
		"an empty choice": {
			`{"schedule": {}}`, `schedule has nothing, want one of linear, exponential, sequence, truncated`,
			`{"jitter": {}}`, `jitter has nothing, want one of decorrelated, uniform, added, slotted`,
			`{"budget": {}}`, `budget has nothing, want one of retry, pacer, throttle, rate, concurrency, adaptive, grpcThrottling, all`,
			`{"budget": {"all": []}}`, `budget.all is empty, want at least one budget`,
			`{"schedule": {"sequence": []}}`, `schedule is an empty Sequence, want at least one delay`,
			`{"schedule": {"truncated": {"schedule": {}}}}`, `schedule.truncated.schedule has nothing, want one of linear, exponential, sequence, truncated`,
		},
		"a value out of range, by the rules of Validate, with the path of the file": {
			`{"schedule": {"exponential": {"multiplier": 0.5}}}`, `schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1`,
			`{"schedule": {"exponential": {"initial": "1m", "max": "1s"}}}`, `schedule.exponential.initial is 1m0s, above the maximum of 1s`,
			`{"schedule": {"linear": {"step": -1}}}`, `schedule.linear.step is -1, want 0 or more`,
			`{"schedule": -1}`, `schedule is -1, want 0 or more`,
			`{"schedule": {"sequence": ["1s", -1]}}`, `schedule.sequence[1] is -1, want 0 or more`,
			`{"schedule": {"truncated": {"schedule": {"linear": {"initial": -1}}}}}`, `schedule.truncated.schedule.linear.initial is -1, want 0 or more`,
			`{"attemptTimeoutSchedule": -1}`, `attemptTimeoutSchedule is -1, want 0 or more`,
			`{"jitter": {"uniform": {"low": 1.2, "high": 0.8}}}`, `jitter.uniform is {"low":1.2,"high":0.8}, want 0 <= low <= high`,
			`{"jitter": {"decorrelated": {"base": "1s", "max": "1ms"}}}`, `jitter.decorrelated is {"base":"1s","max":"1ms"}, want 0 <= base <= max`,
			`{"jitter": {"added": -1}}`, `jitter.added is -1, want 0 or more`,
			`{"jitter": {"slotted": "0s"}}`, `jitter.slotted is "0s", want more than 0`,
			`{"budget": {"retry": {"ratio": -1}}}`, `budget.retry.ratio is -1, want a number of retries per success`,
			`{"budget": {"throttle": {"k": 0.5}}}`, `budget.throttle.k is 0.5, want 1 or more`,
			`{"budget": {"rate": {}}}`, `budget.rate.limit is 0, want more than 0 attempts per second`,
			`{"budget": {"rate": {"limit": 1, "burst": 1, "tokens": 2}}}`, `budget.rate has a burst of 1, want at least what an attempt takes`,
			`{"budget": {"grpcThrottling": {"maxTokens": 10}}}`, `budget.grpcThrottling.tokenRatio is 0, want 0.001 or more`,
			`{"budget": {"all": [{"retry": {}}, {"all": [{"retry": {"floor": -1}}]}]}}`, `budget.all[1].all[0].retry.floor is -1, want 0 or more`,
			`{"breaker": {"failureRate": 2}}`, `breaker.failureRate is 2, want 0 (for 0.5), a share up to 1, or a negative number for none`,
			`{"breaker": {"openFor": {"exponential": {"multiplier": 0.1}}}}`, `breaker.openFor.exponential.multiplier is 0.1, want 0 (for 2) or at least 1`,
			`{"breaker": {"jitter": {"uniform": {"low": 2}}}}`, `breaker.jitter.uniform is {"low":2}, want 0 <= low <= high`,
		},
		"no limit that is not -1": {
			`{"maxAttempts": -2}`, `maxAttempts is -2, want a whole number of 0 or more, or -1 for no limit`,
			`{"maxElapsed": "-1s"}`, `maxElapsed is "-1s", want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
			`{"maxElapsed": -2}`, `maxElapsed is -2, want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
			`{"breaker": {"failureRate": -0.5}}`, `breaker.failureRate is -0.5, want a number of 0 or more, or -1 for none`,
		},
		"a number beyond its type": {
			`{"maxAttempts": 99999999999999999999}`, `maxAttempts is 99999999999999999999, want a whole number of 0 or more, or -1 for no limit`,
			`{"breaker": {"slowRate": 1e999}}`, `breaker.slowRate is 1e999, want a number of 0 or more, or -1 for none`,
			`{"maxElapsed": "9999999h"}`, `maxElapsed is "9999999h", want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
		},
		"an unknown version, before everything else": {
			`{"version": 2}`, `version is 2, want 1, the only version that this release reads`,
			`{"version": 0}`, `version is 0, want 1, the only version that this release reads`,
			`{"version": "1"}`, `version is "1", want 1, the only version that this release reads`,
			`{"version": null}`, `version is null, want 1, the only version that this release reads`,
			`{"version": {}}`, `version is an object, want 1, the only version that this release reads`,
			`{"retryOn": ["503"], "version": 2}`, `version is 2, want 1, the only version that this release reads`,
			`{"version": 1, "version": 1}`, `version is there twice`,
			`{"breaker": {"version": 1, "maxProbes": "x"}}`, `breaker.version is not known, want one of failureRate, minCalls, window, windowCalls, consecutiveFailures, consecutiveSpan, slowCall, slowRate, openFor, jitter, maxRetryAfter, maxProbes, probeSuccesses, probeTimeout, rampUp, minAttemptTime`,
			`{"$schema": 1}`, `"$schema" is 1, want a text`,
		},
	} {
		t.Run(what, func(t *testing.T) {
			for text := range slices.Chunk(cases, 2) {
				s, err := spec.Parse([]byte(text[0]))
				require.EqualError(t, err, "backoff: spec: "+text[1], text[0])
				require.Equal(t, spec.Spec{}, s)
			}
		})
	}
}

func TestARefusalNamesTheBudgetsAndIsShort(t *testing.T) {
	_, err := spec.Parse([]byte(`{"budget": "aws-quota"}`))
	require.ErrorContains(t, err, `budget is "aws-quota", want an object with one of retry, `)
	require.ErrorContains(t, err, `, aws-retry-quota, `)
	_, err = spec.Parse([]byte(`{"` + strings.Repeat("x", 1000) + `": 1}`))
	require.Less(t, len(err.Error()), 320)
}

func TestEveryValueOutOfRangeIsRefused(t *testing.T) {
	_, err := spec.Parse([]byte(`{
		"schedule": -1, "jitter": {"added": -1}, "attemptTimeoutSchedule": {"sequence": []},
		"byClass": {"unknown": {"schedule": -1, "jitter": {}}, "throttled": {"schedule": -1}},
		"budget": {"all": [{"retry": {"ratio": -1, "floor": -1}}, {}, {"throttle": {"k": 0.5}}]},
		"breaker": {"failureRate": 2, "slowRate": 3, "openFor": -1, "jitter": {"added": -1}}
	}`))
	require.EqualError(t, err, `backoff: spec: attemptTimeoutSchedule is an empty Sequence, want at least one delay
backoff: spec: schedule is -1, want 0 or more
backoff: spec: byClass.unknown.schedule is -1, want 0 or more
backoff: spec: byClass.unknown.jitter has nothing, want one of decorrelated, uniform, added, slotted
backoff: spec: byClass.throttled.schedule is -1, want 0 or more
backoff: spec: jitter.added is -1, want 0 or more
backoff: spec: budget.all[0].retry.ratio is -1, want a number of retries per success
backoff: spec: budget.all[0].retry.floor is -1, want 0 or more
backoff: spec: budget.all[1] has nothing, want one of retry, pacer, throttle, rate, concurrency, adaptive, grpcThrottling, all
backoff: spec: budget.all[2].throttle.k is 0.5, want 1 or more
backoff: spec: breaker.openFor is -1, want 0 or more
backoff: spec: breaker.jitter.added is -1, want 0 or more
backoff: spec: breaker.failureRate is 2, want 0 (for 0.5), a share up to 1, or a negative number for none
backoff: spec: breaker.slowRate is 3, want 0 (for 0.5), a share up to 1, or a negative number for none`)
}

func TestDeepNestingIsRefused(t *testing.T) {
	const deep = 1000
	_, err := spec.Parse([]byte(`{"budget":` + strings.Repeat(`{"all":[`, deep) + strings.Repeat(`]}`, deep) + `}`))
	require.ErrorContains(t, err, " is nested too deeply")
	_, err = spec.Parse([]byte(`{"budget":` + strings.Repeat(`{"all":[`, 20*deep)))
	require.Error(t, err)
}

// Whatever the text: either an error whose lines say what it is of, or objects that their own
// Validate accepts, and a text that says the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{"name":"fetch","maxAttempts":4,"maxElapsed":"30s","attemptTimeout":"2s","idempotency":"keyed"}`,
		`{"schedule":{"truncated":{"schedule":{"exponential":{"initial":"1ms","multiplier":1.5}},"max":-1}}}`,
		`{"jitter":{"uniform":{"low":0.8,"high":1.2}},"breaker":{"openFor":{"sequence":["1s","2s"]},"consecutiveFailures":-1}}`,
		`{"budget":{"all":["aws-retry-quota",{"retry":{"ratio":0.1}},{"rate":{"limit":2.5}}]}}`,
		`{"schedule":{"linear":{}},"jitter":{"decorrelated":{}},"maxAttempts":-1}`,
		`{"byClass":{"throttled":{"schedule":{"exponential":{"initial":"1s"}},"maxAttempts":10,"jitter":"equal"},"unknown":{}}}`,
		`{"maxAttempts":3,"maxAttempts":4}`, `{"schedule":null}`, `{"a":`, `-0`,
		`{"$schema":"x","version":1}`, "{\"version\":[\n2]}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := spec.Parse([]byte(text))
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				require.True(t, strings.HasPrefix(line, "backoff: spec: "), line)
			}
			return
		}
		service, policy, err := s.Service()
		require.NoError(t, err)
		require.NoError(t, service.With(policy).Validate())
		policy.WaitBefore(3)
		again, err := json.Marshal(s)
		require.NoError(t, err)
		same, err := spec.Parse(again)
		require.NoError(t, err)
		require.Equal(t, s, same)
	})
}
