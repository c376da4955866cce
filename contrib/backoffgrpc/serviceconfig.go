package backoffgrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
	"github.com/gobackoff/backoff/presets"
)

const maxAttempts = 5 // gRFC A6, "Limits on Retries and Hedges"

// The JSON of a service config, as far as this package reads it.
type (
	// serviceConfig is the whole.
	serviceConfig struct {
		MethodConfig    []methodConfig   `json:"methodConfig,omitempty"`
		RetryThrottling *retryThrottling `json:"retryThrottling,omitempty"`
	}
	// methodConfig is the config of some methods.
	methodConfig struct {
		Name          []methodName   `json:"name"`
		WaitForReady  *bool          `json:"waitForReady,omitempty"`
		Timeout       *duration      `json:"timeout,omitempty"`
		RetryPolicy   *retryPolicy   `json:"retryPolicy,omitempty"`
		HedgingPolicy *hedgingPolicy `json:"hedgingPolicy,omitempty"`
	}
	// methodName names a method, a service or everything.
	methodName struct {
		Service string `json:"service,omitempty"`
		Method  string `json:"method,omitempty"`
	}
	// retryPolicy says when to retry.
	retryPolicy struct {
		MaxAttempts          attempts `json:"maxAttempts"`
		InitialBackoff       duration `json:"initialBackoff"`
		MaxBackoff           duration `json:"maxBackoff"`
		BackoffMultiplier    float64  `json:"backoffMultiplier"`
		RetryableStatusCodes []code   `json:"retryableStatusCodes"`
	}
	// hedgingPolicy says when to hedge.
	hedgingPolicy struct {
		MaxAttempts         attempts `json:"maxAttempts"`
		HedgingDelay        duration `json:"hedgingDelay,omitempty"`
		NonFatalStatusCodes []code   `json:"nonFatalStatusCodes,omitempty"`
	}
	// retryThrottling is the budget of all methods.
	retryThrottling struct {
		MaxTokens  number  `json:"maxTokens"`
		TokenRatio float64 `json:"tokenRatio"`
	}
)

// ParseServiceConfig reads the methodConfig and retryThrottling of a gRPC
// service config. It ignores everything else in it.
//
// A retryPolicy becomes a Policy with jitter of 0.8 to 1.2. A hedgingPolicy
// becomes a Hedge without a limit on its extra load. The retryThrottling
// becomes one [presets.GRPCThrottling], the Budget of all of them: parse the
// config once for each server name. As in gRPC, more than 5 attempts count as
// 5.
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
	if err := mc.RetryPolicy.check(); err != nil {
		return err
	}
	if err := mc.HedgingPolicy.check(); err != nil {
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
		m.Policy = mc.RetryPolicy.policy(path, budget)
		m.Hedge = mc.HedgingPolicy.hedge(path, budget)
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
	if err := p.MaxAttempts.check("retryPolicy"); err != nil {
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
func (p *retryPolicy) policy(name string, budget backoff.Budget) *backoff.Policy {
	if p == nil {
		return nil
	}
	return &backoff.Policy{
		Name:          strings.TrimPrefix(name, "/"),
		MaxAttempts:   min(int(p.MaxAttempts), maxAttempts),
		Schedule:      p.schedule(),
		Jitter:        backoff.UniformJitter(0.8, 1.2),
		MaxRetryAfter: -1,
		Classify:      plug.OnCode(status.Code, grpcCodes(p.RetryableStatusCodes)...),
		Budget:        budget,
	}
}

// schedule returns the Schedule.
func (p *retryPolicy) schedule() backoff.Schedule {
	initial, limit := time.Duration(p.InitialBackoff), time.Duration(p.MaxBackoff)
	if p.BackoffMultiplier < 1 {
		return shrinking{initial: min(initial, limit), factor: p.BackoffMultiplier}
	}
	return backoff.Exponential{Initial: min(initial, limit), Max: limit, Multiplier: p.BackoffMultiplier}
}

// shrinking is a schedule with a multiplier below 1, which gRPC allows.
type shrinking struct {
	initial time.Duration
	factor  float64
}

// Delay implements backoff.Schedule.
func (s shrinking) Delay(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	return time.Duration(float64(s.initial) * math.Pow(s.factor, float64(retry-1)))
}

// check returns what is wrong with the policy.
func (p *hedgingPolicy) check() error {
	if p == nil {
		return nil
	}
	if err := p.MaxAttempts.check("hedgingPolicy"); err != nil {
		return err
	}
	if p.HedgingDelay < 0 {
		return fmt.Errorf("hedgingPolicy.hedgingDelay is %v, want 0 or more", time.Duration(p.HedgingDelay))
	}
	return nil
}

// hedge returns the Hedge of a method.
func (p *hedgingPolicy) hedge(name string, budget backoff.Budget) *backoff.Hedge {
	if p == nil {
		return nil
	}
	h := &backoff.Hedge{
		Name:          strings.TrimPrefix(name, "/"),
		MaxAttempts:   min(int(p.MaxAttempts), maxAttempts),
		Delay:         time.Duration(p.HedgingDelay),
		MaxExtraLoad:  -1,
		MaxRetryAfter: -1,
		Classify:      plug.OnCode(status.Code, grpcCodes(p.NonFatalStatusCodes)...),
		Budget:        budget,
		Detach:        true,
	}
	if h.Delay == 0 {
		h.Delay = -1 // all at once
	}
	return h
}

// ServiceConfig returns the config as a gRPC service config, for clients that
// read one. It returns an error if a service config cannot express the config:
// a Schedule other than [backoff.Exponential] (or one that was read from a
// service config), a ByClass, a measured Delay, a Budget other than one
// [presets.GRPCThrottling] for all methods, or a Policy that retries nothing.
// Jitter, time limits, idempotency and observers are left out; gRPC has a
// jitter of its own, of 0.8 to 1.2. The result is the same for the same config.
func (c *Config) ServiceConfig() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var sc serviceConfig
	throttling := new(sharedThrottling)
	for _, name := range slices.Sorted(maps.Keys(c.Methods)) {
		mc, err := c.Methods[name].encode(name)
		if err == nil {
			err = throttling.add(c.Methods[name])
		}
		if err != nil {
			return nil, fmt.Errorf("backoffgrpc: method %q: %w", name, err)
		}
		sc.MethodConfig = append(sc.MethodConfig, mc)
	}
	if b := throttling.budget; b != nil {
		sc.RetryThrottling = &retryThrottling{MaxTokens: number(b.MaxTokens), TokenRatio: b.TokenRatio}
	}
	return json.Marshal(sc)
}

// sharedThrottling is the throttling that all methods share.
type sharedThrottling struct {
	budget *presets.GRPCThrottling
	known  bool // the budget is that of a method
}

// add takes in the budget of a method.
func (s *sharedThrottling) add(m Method) error {
	var budget backoff.Budget
	policy, _ := m.current()
	switch {
	case policy != nil:
		budget = policy.Budget
	case m.Hedge != nil:
		budget = m.Hedge.Budget
	default:
		return nil
	}
	b, ok := budget.(*presets.GRPCThrottling)
	if budget != nil && !ok || s.known && b != s.budget {
		return errors.New("a service config has one GRPCThrottling for all methods, or none")
	}
	s.budget, s.known = b, true
	return nil
}

// encode returns the config of the method of a name.
func (m Method) encode(name string) (methodConfig, error) {
	service, method, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	mc := methodConfig{Name: []methodName{{service, method}}, WaitForReady: m.WaitForReady}
	if m.Timeout > 0 {
		d := duration(m.Timeout)
		mc.Timeout = &d
	}
	var err error
	policy, _ := m.current()
	switch {
	case policy != nil:
		mc.RetryPolicy, err = encodePolicy(policy)
	case m.Hedge != nil:
		mc.HedgingPolicy, err = encodeHedge(m.Hedge)
	}
	return mc, err
}

// encodePolicy returns nil if the policy makes one attempt only.
func encodePolicy(p *backoff.Policy) (*retryPolicy, error) {
	if len(p.ByClass) > 0 {
		return nil, errors.New("a service config has no ByClass")
	}
	n := attemptsOf(p.MaxAttempts, 4)
	if n == 1 {
		return nil, nil
	}
	out := &retryPolicy{MaxAttempts: n, RetryableStatusCodes: codesOf(withFallback(p.Classify))}
	switch s := p.Schedule.(type) {
	case nil:
		out.exponential(backoff.Exponential{})
	case backoff.Exponential:
		out.exponential(s)
	case shrinking:
		out.InitialBackoff, out.MaxBackoff, out.BackoffMultiplier = duration(s.initial), duration(s.initial), s.factor
	default:
		return nil, errors.New("a service config has no other Schedule than Exponential")
	}
	return out, out.check()
}

// exponential sets the fields of a schedule, with its defaults.
func (p *retryPolicy) exponential(e backoff.Exponential) {
	p.InitialBackoff = duration(e.Delay(1))
	p.MaxBackoff = duration(e.Delay(math.MaxInt))
	p.BackoffMultiplier = e.Multiplier
	if e.Multiplier == 0 {
		p.BackoffMultiplier = 2
	}
}

// encodeHedge returns nil if the hedge makes one attempt only.
func encodeHedge(h *backoff.Hedge) (*hedgingPolicy, error) {
	n := attemptsOf(h.MaxAttempts, 2)
	switch {
	case n == 1:
		return nil, nil
	case h.Delay == 0:
		return nil, errors.New("a service config has no Delay that is measured")
	}
	return &hedgingPolicy{
		MaxAttempts:         n,
		HedgingDelay:        duration(max(0, h.Delay)),
		NonFatalStatusCodes: codesOf(withFallback(h.Classify)),
	}, nil
}

// attemptsOf returns the attempts of a MaxAttempts of n.
func attemptsOf(n, standard int) attempts {
	switch {
	case n == 0:
		return attempts(standard)
	case n < 0:
		return maxAttempts
	}
	return attempts(min(n, maxAttempts))
}

// codesOf returns the codes that a classifier retries.
func codesOf(classify backoff.Classifier) (all []code) {
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if classify(status.Error(c, "")).Retryable() {
			all = append(all, code(c))
		}
	}
	return all
}

// grpcCodes converts codes to those of package codes.
func grpcCodes(of []code) (all []codes.Code) {
	for _, c := range of {
		all = append(all, codes.Code(c))
	}
	return all
}

// attempts is a number of attempts.
type attempts int

// check refuses a number of attempts without a retry.
func (n attempts) check(policy string) error {
	if n < 2 {
		return fmt.Errorf("%s.maxAttempts is %d, want 2 or more", policy, n)
	}
	return nil
}

// number is an integer, which JSON may also write as 5.0 or 5e0.
type number int

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return fmt.Errorf("%s is no integer", text)
	}
	*n = number(f)
	return nil
}

// duration is a google.protobuf.Duration: "1.5s".
type duration time.Duration

const (
	maxSeconds = int64(math.MaxInt64 / time.Second) // how many fit into a time.Duration
	maxProto   = 315_576_000_000                    // how many fit into a google.protobuf.Duration
)

// UnmarshalJSON implements json.Unmarshaler.
func (d *duration) UnmarshalJSON(text []byte) error {
	var s string
	bad := fmt.Errorf(`%s is no duration, want one like "1.5s"`, text)
	if json.Unmarshal(text, &s) != nil {
		return bad
	}
	digits, ok := strings.CutSuffix(s, "s")
	digits, negative := strings.CutPrefix(digits, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	if !ok || whole+fraction == "" || len(fraction) > 9 || strings.Trim(whole+fraction, "0123456789") != "" {
		return bad
	}
	seconds, err := strconv.ParseInt("0"+whole, 10, 64)
	nanos, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil || seconds > maxProto {
		return fmt.Errorf("%s is out of range, want at most %ds", text, int64(maxProto))
	}
	if seconds >= maxSeconds {
		seconds, nanos = maxSeconds-1, 0 // saturates
	}
	*d = duration(time.Duration(seconds)*time.Second + time.Duration(nanos))
	if negative {
		*d = -*d
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (d duration) MarshalJSON() ([]byte, error) {
	text := fmt.Sprintf("%d.%09d", d/duration(time.Second), d%duration(time.Second))
	return json.Marshal(strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "s")
}

// code is a status code, which JSON names in upper case or by its number.
type code codes.Code

// UnmarshalJSON implements json.Unmarshaler.
func (c *code) UnmarshalJSON(text []byte) error {
	var known codes.Code
	if err := known.UnmarshalJSON(text); err != nil || string(text) == "null" || known == codes.OK {
		return fmt.Errorf("%s is no status code of an error", text)
	}
	*c = code(known)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (c code) MarshalJSON() ([]byte, error) { return json.Marshal(names[codes.Code(c)]) }

// names are the codes as a service config writes them. Their String method
// would write CamelCase.
var names = map[codes.Code]string{
	codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE",
	codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
}
