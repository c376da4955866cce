package spec

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"strconv"

	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/limit/adaptive"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/presets"
)

// budget is the name of a preset, or an object with one member.
type budget struct {
	Preset         string          `json:"-"`
	Retry          *retryBudget    `json:"retry,omitzero"`
	Pacer          *pacer          `json:"pacer,omitzero"`
	Throttle       *throttle       `json:"throttle,omitzero"`
	Rate           *rateLimit      `json:"rate,omitzero"`
	Concurrency    *concurrency    `json:"concurrency,omitzero"`
	Adaptive       *struct{}       `json:"adaptive,omitzero"` // adaptive.Limit has no fields
	GRPCThrottling *grpcThrottling `json:"grpcThrottling,omitzero"`
	All            []budget        `json:"all,omitzero"`
}

// retryBudget holds the fields of [backoff.RetryBudget].
type retryBudget struct {
	Ratio  float64  `json:"ratio,omitzero"`
	Window duration `json:"window,omitzero"`
	Floor  int      `json:"floor,omitzero"`
}

// pacer holds the fields of [pace.Pacer].
type pacer struct {
	Ratio   float64  `json:"ratio,omitzero"`
	Window  duration `json:"window,omitzero"`
	Floor   int      `json:"floor,omitzero"`
	MaxWait duration `json:"maxWait,omitzero"`
}

// throttle holds the fields of [limit.Throttle].
type throttle struct {
	K         float64  `json:"k,omitzero"`
	Window    duration `json:"window,omitzero"`
	Pad       float64  `json:"pad,omitzero"`
	MaxReject float64  `json:"maxReject,omitzero"`
}

// rateLimit holds the fields of [limit.Rate], and those of its limiter.
type rateLimit struct {
	Limit       float64 `json:"limit,omitzero"`
	Burst       int     `json:"burst,omitzero"`
	Tokens      int     `json:"tokens,omitzero"`
	RetriesOnly bool    `json:"retriesOnly,omitzero"`
}

// concurrency holds the field of [limit.Concurrency].
type concurrency struct {
	Max int `json:"max,omitzero"`
}

// grpcThrottling holds the fields of [presets.GRPCThrottling].
type grpcThrottling struct {
	MaxTokens  int     `json:"maxTokens,omitzero"`
	TokenRatio float64 `json:"tokenRatio,omitzero"`
}

// fromToken implements literal.
func (b *budget) fromToken(token json.Token) bool {
	b.Preset, _ = token.(string)
	return b.preset() != nil
}

// preset returns a new budget of the given name; nil if there is none.
func (b *budget) preset() backoff.Budget { return maps.Collect(presets.Budgets())[b.Preset] }

// wanted implements literal.
func (b *budget) wanted() string {
	return "an object with one of " + names(*b) + ", or one of " + listed(presets.Budgets())
}

// MarshalJSON implements json.Marshaler.
func (b budget) MarshalJSON() ([]byte, error) {
	if b.Preset != "" {
		return json.Marshal(b.Preset)
	}
	type object budget
	return json.Marshal(object(b))
}

// check returns the problems of a budget that the library would refuse.
func (b *budget) check(path string) error {
	if b == nil || b.Preset != "" {
		return nil
	}
	member, _, err := oneOf(path, *b)
	switch {
	case err != nil:
		return err
	case b.All != nil:
		return b.checkAll(path + ".all")
	case b.Rate != nil && !(b.Rate.Limit > 0): // the limiter belongs to another library, which accepts 0
		return problem(path+".rate.limit", "is "+strconv.FormatFloat(b.Rate.Limit, 'g', -1, 64)+", want more than 0 attempts per second")
	}
	made, name := b.made()
	return relocate(join(path, member), name, made.Validate())
}

// checkAll checks the budgets that are joined.
func (b *budget) checkAll(path string) error {
	if len(b.All) == 0 {
		return problem(path, "is empty, want at least one budget")
	}
	var problems []error
	for i := range b.All {
		problems = append(problems, b.All[i].check(path+"["+strconv.Itoa(i)+"]"))
	}
	return errors.Join(problems...)
}

// build returns a new rate limit.
func (l *rateLimit) build() *limit.Rate {
	limiter := rate.NewLimiter(rate.Limit(l.Limit), cmp.Or(l.Burst, l.Tokens, 1))
	return &limit.Rate{Limiter: limiter, Tokens: l.Tokens, RetriesOnly: l.RetriesOnly}
}

// build returns a new budget; nil for nil.
func (b *budget) build() backoff.Budget {
	if b == nil {
		return nil
	}
	made, _ := b.made()
	return made
}

// made returns a new budget, and the name that errors of the library give it.
func (b *budget) made() (made backoff.Budget, name string) {
	switch {
	case b.Preset != "":
		return b.preset(), ""
	case b.Retry != nil:
		return &backoff.RetryBudget{Ratio: b.Retry.Ratio, Window: b.Retry.Window.value(), Floor: b.Retry.Floor}, "RetryBudget"
	case b.Pacer != nil:
		return b.Pacer.build(), "RetryBudget"
	case b.Throttle != nil:
		t := b.Throttle
		return &limit.Throttle{K: t.K, Window: t.Window.value(), Pad: t.Pad, MaxReject: t.MaxReject}, "limit.Throttle"
	case b.Rate != nil:
		return b.Rate.build(), "limit.Rate"
	case b.Concurrency != nil:
		return &limit.Concurrency{Max: b.Concurrency.Max}, "limit.Concurrency"
	case b.Adaptive != nil:
		return new(adaptive.Limit), ""
	case b.GRPCThrottling != nil:
		return &presets.GRPCThrottling{MaxTokens: b.GRPCThrottling.MaxTokens, TokenRatio: b.GRPCThrottling.TokenRatio}, "presets.GRPCThrottling"
	}
	var members []backoff.Budget
	for i := range b.All {
		members = append(members, b.All[i].build())
	}
	return backoff.JoinBudgets(members...), ""
}

// build returns a new pacer.
func (p *pacer) build() *pace.Pacer {
	l := &pace.Pacer{MaxWait: p.MaxWait.value()}
	l.Ratio, l.Window, l.Floor = p.Ratio, p.Window.value(), p.Floor
	return l
}
