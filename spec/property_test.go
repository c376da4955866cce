package spec

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/presets"
)

func TestARandomSpecSurvivesItsText(t *testing.T) {
	r := maker{rand.New(rand.NewPCG(1, 2))}
	seen := map[string]bool{}
	for range 3000 {
		f := r.form()
		s := Spec{&f}
		require.NoError(t, s.form.check())
		text, err := json.Marshal(s)
		require.NoError(t, err)
		again, err := Parse(text)
		require.NoError(t, err, "%s", text)
		require.Equal(t, s, again, "%s", text)
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(`{}[]:,"`, r) }) {
			seen[word] = true
		}
	}
	for _, member := range members(map[reflect.Type]bool{}, reflect.TypeFor[form]()) {
		kept := member != "$schema" && member != "version"
		require.Equal(t, kept, seen[member], "a random Spec had %s", member)
	}
}

// members lists all names there are, in any depth.
func members(known map[reflect.Type]bool, of reflect.Type) (all []string) {
	if of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || known[of] {
		return nil
	}
	known[of] = true
	for i := range of.NumField() {
		if name := tag(of.Field(i)); name != "-" {
			all = append(all, name)
		}
		all = append(all, members(known, of.Field(i).Type)...)
	}
	return all
}

// A maker makes random forms that are valid.
type maker struct{ *rand.Rand }

func maybe[T any](r maker, v T) T {
	if r.IntN(3) == 0 {
		var none T
		return none
	}
	return v
}

func (r maker) duration() duration { return duration(r.Int64N(int64(time.Hour))) }
func (r maker) unlimited() duration {
	if r.IntN(3) == 0 {
		return -1
	}
	return r.duration()
}

func (r maker) number() int {
	if r.IntN(4) == 0 {
		return -1
	}
	return r.IntN(1000)
}

func (r maker) form() form {
	f := form{
		Name:            maybe(r, string([]rune{rune('a' + r.IntN(26)), '"', '\n', 'é', '<'})),
		MaxAttempts:     r.number(),
		MaxElapsed:      r.unlimited(),
		Schedule:        maybe(r, r.schedule(0)),
		ByClass:         maybe(r, &byClass{maybe(r, r.limits()), maybe(r, r.limits()), maybe(r, r.limits()), maybe(r, r.limits())}),
		Jitter:          maybe(r, r.jitter()),
		MaxDelay:        r.unlimited(),
		MaxRetryAfter:   r.unlimited(),
		Idempotency:     maybe(r, idempotencies[r.IntN(len(idempotencies))].name),
		Budget:          maybe(r, r.budget(0)),
		ShortenLastWait: r.IntN(2) == 0,
		Breaker:         maybe(r, r.breaker()),
	}
	if r.IntN(2) == 0 {
		f.AttemptTimeout = r.unlimited()
	} else {
		f.AttemptTimeoutSchedule = maybe(r, r.schedule(0))
	}
	return f
}

func (r maker) limits() *classLimits {
	return &classLimits{Schedule: maybe(r, r.schedule(0)), MaxAttempts: r.number(), Jitter: maybe(r, r.jitter())}
}

func (r maker) schedule(depth int) *schedule {
	d := r.duration()
	switch n := r.IntN(5 - min(depth, 1)); n {
	case 0:
		return &schedule{Constant: &d}
	case 1:
		return &schedule{Linear: &linear{Initial: d, Step: r.duration(), Max: maybe(r, d+r.duration())}}
	case 2:
		return &schedule{Exponential: &exponential{Initial: d, Max: -1, Multiplier: maybe(r, 1+r.Float64())}}
	case 3:
		return &schedule{Sequence: []duration{d, r.duration()}}
	}
	return &schedule{Truncated: &truncated{Schedule: maybe(r, r.schedule(depth+1)), Max: r.unlimited()}}
}

func (r maker) jitter() *jitter {
	d := r.duration() + 1
	switch r.IntN(5) {
	case 0:
		return &jitter{Decorrelated: &decorrelated{Base: maybe(r, d), Max: -1}}
	case 1:
		low := r.Float64()
		return &jitter{Uniform: &uniform{Low: low, High: low + r.Float64()}}
	case 2:
		return &jitter{Added: &d}
	case 3:
		return &jitter{Slotted: &d}
	}
	return &jitter{Kind: []string{"none", "full", "equal"}[r.IntN(3)]}
}

func (r maker) budget(depth int) *budget {
	switch r.IntN(9 - min(depth, 1)) {
	case 0:
		return &budget{Retry: &retryBudget{Ratio: maybe(r, r.Float64()), Window: maybe(r, r.duration()), Floor: r.IntN(10)}}
	case 1:
		return &budget{Throttle: &throttle{K: 1 + r.Float64(), Window: r.duration(), Pad: maybe(r, r.Float64()), MaxReject: r.Float64()}}
	case 2:
		return &budget{Rate: &rateLimit{Limit: 1 + r.Float64(), Burst: 3 + r.IntN(3), Tokens: r.IntN(4), RetriesOnly: r.IntN(2) == 0}}
	case 3:
		return &budget{Concurrency: &maxAtOnce{Max: r.number()}}
	case 4:
		return &budget{Sleeping: &maxAtOnce{Max: r.number()}}
	case 5:
		return &budget{GRPCThrottling: &grpcThrottling{MaxTokens: 1 + r.IntN(1000), TokenRatio: 0.01 + r.Float64()}}
	case 6:
		return &budget{Pacer: &pacer{Ratio: maybe(r, r.Float64()), Window: maybe(r, r.duration()), Floor: r.IntN(10), MaxWait: r.duration()}}
	case 7:
		var known []string
		for name := range presets.Budgets() {
			known = append(known, name)
		}
		return &budget{Preset: known[r.IntN(len(known)-1)]} // the last one is two budgets
	}
	all := []budget{*r.budget(depth + 1)}
	for range r.IntN(3) {
		all = append(all, *r.budget(depth + 1))
	}
	return &budget{All: all}
}

func (r maker) breaker() *breaker {
	return &breaker{
		FailureRate:         maybe(r, r.Float64()),
		MinCalls:            r.number(),
		Window:              r.unlimited(),
		WindowCalls:         r.number(),
		ConsecutiveFailures: r.number(),
		ConsecutiveSpan:     r.unlimited(),
		SlowCall:            r.unlimited(),
		SlowRate:            maybe(r, -1.0),
		OpenFor:             maybe(r, r.schedule(0)),
		Jitter:              maybe(r, r.jitter()),
		MaxRetryAfter:       r.unlimited(),
		MaxProbes:           r.number(),
		ProbeSuccesses:      r.IntN(5),
		ProbeTimeout:        r.unlimited(),
		RampUp:              r.unlimited(),
		MinAttemptTime:      r.unlimited(),
	}
}
