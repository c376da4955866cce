package main

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// A policyFile is the part of a policy file that an import writes. Package spec
// checks it.
type policyFile struct {
	Name           string         `json:"name,omitempty"`
	MaxAttempts    int            `json:"maxAttempts"`
	AttemptTimeout string         `json:"attemptTimeout,omitempty"`
	Schedule       map[string]any `json:"schedule"`
	Jitter         any            `json:"jitter"`
	MaxRetryAfter  int            `json:"maxRetryAfter,omitempty"`
	Budget         map[string]any `json:"budget,omitempty"`
}

// An exponentialJSON is an exponential schedule of a policy file.
type exponentialJSON struct {
	Initial    string  `json:"initial"`
	Max        string  `json:"max"`
	Multiplier float64 `json:"multiplier,omitempty"`
}

// importGRPC returns the policies of a service config, and warns of what is not
// in any of them. The rules are those of gRFC A6.
func (i *imported) importGRPC(root *object) ([]imported, error) {
	budget, err := grpcBudget(root)
	if err != nil {
		return nil, err
	}
	configs, err := root.list("methodConfig")
	if err != nil {
		return nil, err
	}
	var policies []imported
	for _, config := range configs {
		retry, err := config.object("retryPolicy")
		if err != nil {
			return nil, err
		}
		hedges := config.has("hedgingPolicy")
		switch {
		case retry == nil && hedges:
			i.warn("%s is left out: hedging is for the program, by backoff.Hedge", config.at("hedgingPolicy"))
			continue
		case retry == nil:
			continue
		case hedges:
			return nil, fmt.Errorf("%s has a retryPolicy and a hedgingPolicy: retry or hedge, not both", config.path)
		}
		p, err := importMethodConfig(config, retry, budget)
		if err != nil {
			return nil, err
		}
		policies = append(policies, p)
	}
	root.warnOfUnread(i)
	return policies, nil
}

// importMethodConfig returns the policy of a method config.
func importMethodConfig(config, retry *object, budget map[string]any) (p imported, err error) {
	if p.names, err = methodNames(config); err != nil {
		return p, err
	}
	file, err := p.retryPolicy(retry)
	if err != nil {
		return p, err
	}
	file.Budget = budget
	p.policy = file
	config.warnOfUnread(&p)
	return p, nil
}

// grpcBudget returns the budget for the retry throttling of a service config,
// and nil if it has none.
func grpcBudget(root *object) (map[string]any, error) {
	t, err := root.object("retryThrottling")
	if t == nil || err != nil {
		return nil, err
	}
	var most, ratio float64
	if _, err := t.get("maxTokens", &most, "a number"); err != nil {
		return nil, err
	}
	if most != math.Trunc(most) || most < 1 || most > 1000 {
		return nil, t.refuse("maxTokens", "a whole number from 1 to 1000")
	}
	if _, err := t.get("tokenRatio", &ratio, "a number"); err != nil {
		return nil, err
	}
	if ratio < 0.001 {
		return nil, t.refuse("tokenRatio", "0.001 or more")
	}
	return map[string]any{"grpcThrottling": map[string]any{"maxTokens": int(most), "tokenRatio": ratio}}, nil
}

// methodNames returns the names by which -pick finds the policy of a method
// config.
func methodNames(config *object) ([]string, error) {
	list, err := config.list("name")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, n := range list {
		var service, method string
		if _, err := n.get("service", &service, "a text"); err != nil {
			return nil, err
		}
		if _, err := n.get("method", &method, "a text"); err != nil {
			return nil, err
		}
		all = append(all, strings.TrimSuffix(service+"/"+method, "/"))
	}
	if len(all) == 0 || all[0] == "" {
		all = append([]string{config.path}, all...)
	}
	return all, nil
}

// maxGRPCAttempts is the limit of gRFC A6, "Limits on Retries and Hedges".
const maxGRPCAttempts = 5

// retryPolicy returns the policy file for a retryPolicy.
func (i *imported) retryPolicy(retry *object) (*policyFile, error) {
	var attempts, factor float64
	if _, err := retry.get("maxAttempts", &attempts, "a whole number of 2 or more"); err != nil {
		return nil, err
	}
	if attempts != math.Trunc(attempts) || attempts < 2 || attempts > math.MaxInt32 {
		return nil, retry.invalid("maxAttempts", "a whole number of 2 or more")
	}
	initial, err := retry.protobufDuration("initialBackoff")
	if err != nil {
		return nil, err
	}
	limit, err := retry.protobufDuration("maxBackoff")
	if err != nil {
		return nil, err
	}
	if _, err := retry.get("backoffMultiplier", &factor, "a number above 0"); err != nil {
		return nil, err
	}
	if factor <= 0 {
		return nil, retry.invalid("backoffMultiplier", "a number above 0")
	}
	file := &policyFile{
		Name:          i.names[0],
		MaxAttempts:   min(int(attempts), maxGRPCAttempts),
		Schedule:      grpcSchedule(min(initial, limit), limit, factor),
		Jitter:        map[string]any{"uniform": map[string]float64{"low": 0.8, "high": 1.2}},
		MaxRetryAfter: -1,
	}
	if attempts > maxGRPCAttempts {
		i.warn("%s is %v, which gRPC takes as %d", retry.at("maxAttempts"), attempts, maxGRPCAttempts)
	}
	return file, i.warnOfCodes(retry)
}

// warnOfCodes warns that the program has to classify the status codes.
func (i *imported) warnOfCodes(retry *object) error {
	var codes []any
	if _, err := retry.get("retryableStatusCodes", &codes, "a list of codes"); err != nil {
		return err
	}
	if len(codes) == 0 {
		return retry.invalid("retryableStatusCodes", "at least one code")
	}
	i.warn("%s %v is for the program: Policy.Classify, such as plug.OnCode(status.Code, ...)", retry.at("retryableStatusCodes"), codes)
	if len(i.names) > 1 {
		i.warn("the policy is that of %s too", strings.Join(i.names[1:], ", "))
	}
	retry.warnOfUnread(i)
	return nil
}

// invalid returns an error for a member that is missing or has the wrong value.
func (o *object) invalid(name, want string) error {
	if !o.has(name) {
		return fmt.Errorf("%s is not there, want %s", o.at(name), want)
	}
	return o.refuse(name, want)
}

// grpcSchedule returns an exponential schedule. A schedule whose delays shrink
// is written as a list of delays.
func grpcSchedule(initial, limit time.Duration, factor float64) map[string]any {
	if factor >= 1 {
		return map[string]any{"exponential": exponentialJSON{initial.String(), limit.String(), factor}}
	}
	var delays []string
	for n := range maxGRPCAttempts - 1 {
		delays = append(delays, time.Duration(float64(initial)*math.Pow(factor, float64(n))).String())
	}
	return map[string]any{"sequence": delays}
}

// protobufSeconds matches the JSON form of a google.protobuf.Duration.
var protobufSeconds = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?s$`)

// protobufDuration reads a google.protobuf.Duration above 0.
func (o *object) protobufDuration(name string) (time.Duration, error) {
	const want = `a duration above 0 such as "1.5s"`
	var text string
	if _, err := o.get(name, &text, want); err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if !protobufSeconds.MatchString(text) || err != nil || d <= 0 {
		return 0, o.invalid(name, want)
	}
	return d, nil
}
