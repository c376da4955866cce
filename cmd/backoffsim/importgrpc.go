package main

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// What a policy file is made of, as far as an import needs it. Package spec checks it.
type (
	policyFile struct {
		Name           string         `json:"name,omitempty"`
		MaxAttempts    int            `json:"maxAttempts"`
		AttemptTimeout string         `json:"attemptTimeout,omitempty"`
		Schedule       map[string]any `json:"schedule"`
		Jitter         any            `json:"jitter"`
		MaxRetryAfter  int            `json:"maxRetryAfter,omitempty"`
		Budget         map[string]any `json:"budget,omitempty"`
	}
	growth struct {
		Initial    string  `json:"initial"`
		Max        string  `json:"max"`
		Multiplier float64 `json:"multiplier,omitempty"`
	}
)

// addGRPC adds the policies of a service config. The rules are those of gRFC A6.
func addGRPC(policies []imported, root *object) ([]imported, error) {
	budget, err := throttling(root)
	if err != nil {
		return nil, err
	}
	configs, err := root.list("methodConfig")
	if err != nil {
		return nil, err
	}
	var hedged []string
	first := len(policies)
	for _, config := range configs {
		p := imported{}
		retry, err := config.object("retryPolicy")
		if err != nil {
			return nil, err
		}
		if retry == nil {
			if config.has("hedgingPolicy") {
				hedged = append(hedged, config.at("hedgingPolicy")+" is left out: hedging is for the program, by backoff.Hedge")
			}
			continue
		}
		if config.has("hedgingPolicy") {
			return nil, fmt.Errorf("%s has a retryPolicy and a hedgingPolicy: retry or hedge, not both", config.path)
		}
		if p.names, err = methodNames(config); err != nil {
			return nil, err
		}
		file, err := p.retryPolicy(retry)
		if err != nil {
			return nil, err
		}
		file.Budget = budget
		p.policy = file
		config.rest(&p)
		root.rest(&p)
		policies = append(policies, p)
	}
	for i := range policies[first:] {
		policies[first+i].warnings = append(policies[first+i].warnings, hedged...)
	}
	return policies, nil
}

func throttling(root *object) (map[string]any, error) {
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

// methodNames returns how the policy of a method config may be called.
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

const mostGRPCAttempts = 5 // gRFC A6, "Limits on Retries and Hedges"

func (i *imported) retryPolicy(retry *object) (*policyFile, error) {
	var attempts, factor float64
	if _, err := retry.get("maxAttempts", &attempts, "a whole number of 2 or more"); err != nil {
		return nil, err
	}
	if attempts != math.Trunc(attempts) || attempts < 2 || attempts > math.MaxInt32 {
		return nil, retry.need("maxAttempts", "a whole number of 2 or more")
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
		return nil, retry.need("backoffMultiplier", "a number above 0")
	}
	file := &policyFile{
		Name:          i.names[0],
		MaxAttempts:   min(int(attempts), mostGRPCAttempts),
		Schedule:      grpcSchedule(min(initial, limit), limit, factor),
		Jitter:        map[string]any{"uniform": map[string]float64{"low": 0.8, "high": 1.2}},
		MaxRetryAfter: -1,
	}
	if attempts > mostGRPCAttempts {
		i.warn("%s is %v, which gRPC takes as %d", retry.at("maxAttempts"), attempts, mostGRPCAttempts)
	}
	return file, i.codes(retry)
}

// codes warns of the codes, as sorting errors is the program's.
func (i *imported) codes(retry *object) error {
	var codes []any
	if _, err := retry.get("retryableStatusCodes", &codes, "a list of codes"); err != nil {
		return err
	}
	if len(codes) == 0 {
		return retry.need("retryableStatusCodes", "at least one code")
	}
	i.warn("%s %v is for the program: Policy.Classify, such as plug.OnCode(status.Code, ...)", retry.at("retryableStatusCodes"), codes)
	if len(i.names) > 1 {
		i.warn("the policy is that of %s too", strings.Join(i.names[1:], ", "))
	}
	retry.rest(i)
	return nil
}

// need refuses a member, or that it is not there.
func (o *object) need(name, want string) error {
	if !o.has(name) {
		return fmt.Errorf("%s is not there, want %s", o.at(name), want)
	}
	return o.refuse(name, want)
}

// grpcSchedule spells a schedule out that shrinks, for which there is no other word.
func grpcSchedule(initial, limit time.Duration, factor float64) map[string]any {
	if factor >= 1 {
		return map[string]any{"exponential": growth{initial.String(), limit.String(), factor}}
	}
	var delays []string
	for n := range mostGRPCAttempts - 1 {
		delays = append(delays, time.Duration(float64(initial)*math.Pow(factor, float64(n))).String())
	}
	return map[string]any{"sequence": delays}
}

var protobuf = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?s$`)

// protobufDuration reads a google.protobuf.Duration above 0.
func (o *object) protobufDuration(name string) (time.Duration, error) {
	const want = `a duration above 0 such as "1.5s"`
	var text string
	if _, err := o.get(name, &text, want); err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if !protobuf.MatchString(text) || err != nil || d <= 0 {
		return 0, o.need(name, want)
	}
	return d, nil
}
