package backoffgrpc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/plug"
	"github.com/gobackoff/backoff/presets"
)

const maxAttempts = 5 // gRFC A6, "Limits on Retries and Hedges"

// The JSON of a service config, as far as this package reads it.
type (
	// serviceConfig is the whole.
	serviceConfig struct {
		MethodConfig    []methodConfig   `json:"methodConfig"`
		RetryThrottling *retryThrottling `json:"retryThrottling"`
	}
	// methodConfig is the config of some methods.
	methodConfig struct {
		Name          []methodName   `json:"name"`
		WaitForReady  *bool          `json:"waitForReady"`
		Timeout       *duration      `json:"timeout"`
		RetryPolicy   *retryPolicy   `json:"retryPolicy"`
		HedgingPolicy *hedgingPolicy `json:"hedgingPolicy"`
	}
	// methodName names a method, a service or everything.
	methodName struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	}
	// retryPolicy says when to retry.
	retryPolicy struct {
		MaxAttempts          int          `json:"maxAttempts"`
		InitialBackoff       duration     `json:"initialBackoff"`
		MaxBackoff           duration     `json:"maxBackoff"`
		BackoffMultiplier    float64      `json:"backoffMultiplier"`
		RetryableStatusCodes []codes.Code `json:"retryableStatusCodes"`
	}
	// hedgingPolicy says when to hedge.
	hedgingPolicy struct {
		MaxAttempts         int          `json:"maxAttempts"`
		HedgingDelay        duration     `json:"hedgingDelay"`
		NonFatalStatusCodes []codes.Code `json:"nonFatalStatusCodes"`
	}
	// retryThrottling is the budget of all methods.
	retryThrottling struct {
		MaxTokens  float64 `json:"maxTokens"` // an integer, which JSON may also write as 5.0 or 5e0
		TokenRatio float64 `json:"tokenRatio"`
	}
)

// ParseServiceConfig reads the methodConfig and retryThrottling of a gRPC
// service config. It ignores everything else in it.
//
// A retryPolicy becomes a Policy with jitter of 0.8 to 1.2. A hedgingPolicy
// becomes a Hedge without a limit on its extra load. With neither, calls are not
// retried. The retryThrottling becomes one [presets.GRPCThrottling], the Budget
// of all of them: parse the config once for each server name. As in gRPC, more
// than 5 attempts count as 5.
//
// ParseServiceConfig refuses what grpc-go refuses, and more. It names the method
// config. It refuses:
//
//   - a retryPolicy beside a hedgingPolicy
//   - fewer than 2 attempts
//   - an initialBackoff, maxBackoff or backoffMultiplier that is not positive
//   - a duration of more than 315,576,000,000 s, which is 10,000 years
//   - a timeout of 0s, under which every call of grpc-go ends at once; a negative
//     one is no limit
//   - a negative hedgingDelay
//   - no retryableStatusCodes, or a code that does not exist; names of codes are
//     in upper case
//   - maxTokens that are no integer or outside 1 to 1000, or a tokenRatio below
//     0.001
//   - a method without a service, a slash in a name, or two configs for one name
//
// A method config without the field name is ignored.
//
// Source: gRFC A6, "Validation of retryPolicy".
func ParseServiceConfig(text []byte) (*Config, error) {
	var sc serviceConfig
	if err := json.Unmarshal(text, &sc); err != nil {
		return nil, fmt.Errorf("backoffgrpc: service config: %w", err)
	}
	c := &Config{Methods: make(map[string]Method)}
	budget, err := sc.RetryThrottling.budget()
	if err != nil {
		return nil, fmt.Errorf("backoffgrpc: retryThrottling: %w", err)
	}
	for i, mc := range sc.MethodConfig {
		if err := c.add(mc, budget); err != nil {
			return nil, fmt.Errorf("backoffgrpc: methodConfig[%d]: %w", i, err)
		}
	}
	return c, nil
}

// budget returns the Budget of all methods, nil if there is none.
func (t *retryThrottling) budget() (backoff.Budget, error) {
	if t == nil {
		return nil, nil
	}
	if t.MaxTokens != math.Trunc(t.MaxTokens) || math.Abs(t.MaxTokens) > math.MaxInt32 {
		return nil, fmt.Errorf("maxTokens is %v, want an integer of 32 bits", t.MaxTokens)
	}
	b := &presets.GRPCThrottling{MaxTokens: int(t.MaxTokens), TokenRatio: t.TokenRatio}
	return b, b.Validate()
}

// add adds a method config under all its names.
func (c *Config) add(mc methodConfig, budget backoff.Budget) error {
	if mc.Name == nil {
		return nil
	}
	m := Method{WaitForReady: mc.WaitForReady}
	if mc.Timeout != nil {
		if m.Timeout = time.Duration(*mc.Timeout); m.Timeout == 0 {
			return errors.New("timeout is 0s: every call would end at once")
		}
	}
	if mc.RetryPolicy != nil && mc.HedgingPolicy != nil {
		return errors.New("has a retryPolicy and a hedgingPolicy: retry or hedge, not both")
	}
	if err := cmp.Or(mc.RetryPolicy.check(), mc.HedgingPolicy.check()); err != nil {
		return err
	}
	for _, name := range mc.Name {
		path, err := name.path()
		if err != nil {
			return err
		}
		if _, twice := c.Methods[path]; twice {
			return fmt.Errorf("name %q is there twice", path)
		}
		switch {
		case mc.RetryPolicy != nil:
			m.Policy = mc.RetryPolicy.policy(path, budget)
		case mc.HedgingPolicy != nil:
			m.Hedge = mc.HedgingPolicy.hedge(path, budget)
		default:
			m.Policy = backoff.Policy{MaxAttempts: 1}
		}
		c.Methods[path] = m
	}
	return nil
}

// path returns the name as Config.Methods has it.
func (n methodName) path() (string, error) {
	switch {
	case strings.Contains(n.Service+n.Method, "/"):
		return "", fmt.Errorf("name: %q or %q has a slash", n.Service, n.Method)
	case n.Service == "" && n.Method != "":
		return "", errors.New("name: method " + strconv.Quote(n.Method) + " without a service")
	case n.Service == "":
		return "", nil
	}
	return "/" + n.Service + "/" + n.Method, nil
}

// check returns what is wrong with the policy.
func (p *retryPolicy) check() error {
	if p == nil {
		return nil
	}
	if err := checkAttempts("retryPolicy", p.MaxAttempts, p.RetryableStatusCodes); err != nil {
		return err
	}
	switch {
	case p.InitialBackoff <= 0:
		return fmt.Errorf("retryPolicy.initialBackoff is %v, want more than 0", time.Duration(p.InitialBackoff))
	case p.MaxBackoff <= 0:
		return fmt.Errorf("retryPolicy.maxBackoff is %v, want more than 0", time.Duration(p.MaxBackoff))
	case !(p.BackoffMultiplier > 0):
		return fmt.Errorf("retryPolicy.backoffMultiplier is %v, want more than 0", p.BackoffMultiplier)
	case len(p.RetryableStatusCodes) == 0:
		return errors.New("retryPolicy.retryableStatusCodes is empty")
	}
	return nil
}

// policy returns the Policy of a method.
func (p *retryPolicy) policy(name string, budget backoff.Budget) backoff.Policy {
	return backoff.Policy{
		Name:          strings.TrimPrefix(name, "/"),
		MaxAttempts:   min(p.MaxAttempts, maxAttempts),
		Schedule:      p.schedule(),
		Jitter:        backoff.UniformJitter(0.8, 1.2),
		MaxRetryAfter: -1,
		Classify:      plug.OnCode(status.Code, p.RetryableStatusCodes...),
		Budget:        budget,
	}
}

// schedule returns the Schedule.
func (p *retryPolicy) schedule() backoff.Schedule {
	initial, limit := time.Duration(min(p.InitialBackoff, p.MaxBackoff)), time.Duration(p.MaxBackoff)
	if p.BackoffMultiplier >= 1 {
		return backoff.Exponential{Initial: initial, Max: limit, Multiplier: p.BackoffMultiplier}
	}
	var shrinking []time.Duration
	for n := range maxAttempts - 1 {
		shrinking = append(shrinking, time.Duration(float64(initial)*math.Pow(p.BackoffMultiplier, float64(n))))
	}
	return backoff.Sequence(shrinking...)
}

// check returns what is wrong with the policy.
func (p *hedgingPolicy) check() error {
	if p == nil {
		return nil
	}
	if err := checkAttempts("hedgingPolicy", p.MaxAttempts, p.NonFatalStatusCodes); err != nil {
		return err
	}
	if p.HedgingDelay < 0 {
		return fmt.Errorf("hedgingPolicy.hedgingDelay is %v, want 0 or more", time.Duration(p.HedgingDelay))
	}
	return nil
}

// hedge returns the Hedge of a method.
func (p *hedgingPolicy) hedge(name string, budget backoff.Budget) *hedge.Hedge {
	h := &hedge.Hedge{
		Name:          strings.TrimPrefix(name, "/"),
		MaxAttempts:   min(p.MaxAttempts, maxAttempts),
		Delay:         time.Duration(p.HedgingDelay),
		MaxExtraLoad:  -1,
		MaxRetryAfter: -1,
		Classify:      plug.OnCode(status.Code, p.NonFatalStatusCodes...),
		Budget:        budget,
		Detach:        true,
	}
	if h.Delay == 0 {
		h.Delay = -1 // all at once
	}
	return h
}

// checkAttempts refuses a number of attempts without a retry, and codes that are
// no error's.
func checkAttempts(policy string, attempts int, retried []codes.Code) error {
	if attempts < 2 {
		return fmt.Errorf("%s.maxAttempts is %d, want 2 or more", policy, attempts)
	}
	if slices.Contains(retried, codes.OK) {
		return fmt.Errorf("%s has the code OK, which is no error", policy)
	}
	return nil
}

// duration is a google.protobuf.Duration: "1.5s".
type duration time.Duration

// maxSeconds is how many fit into a google.protobuf.Duration.
const maxSeconds = 315_576_000_000

// UnmarshalJSON implements json.Unmarshaler.
func (d *duration) UnmarshalJSON(text []byte) error {
	var s string
	bad := fmt.Errorf(`%s is no duration, want one like "1.5s"`, text)
	if json.Unmarshal(text, &s) != nil {
		return bad
	}
	digits, ok := strings.CutSuffix(s, "s")
	digits, negative := strings.CutPrefix(digits, "-")
	if !negative {
		digits = strings.TrimPrefix(digits, "+") // as grpc-go does
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	if !ok || whole+fraction == "" || len(fraction) > 9 || strings.Trim(whole+fraction, "0123456789") != "" {
		return bad
	}
	seconds, err := strconv.ParseInt("0"+whole, 10, 64)
	nanos, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil || seconds > maxSeconds {
		return fmt.Errorf("%s is out of range, want at most %ds", text, int64(maxSeconds))
	}
	*d = duration((&durationpb.Duration{Seconds: seconds, Nanos: int32(nanos)}).AsDuration()) // saturates
	if negative {
		*d = -*d
	}
	return nil
}
