package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/presets"
)

// importGRPC returns the policies of a service config, one for each method.
func importGRPC(text []byte) ([]imported, error) {
	config, err := backoffgrpc.ParseServiceConfig(text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "backoffgrpc: "))
	}
	var policies []imported
	for _, path := range slices.Sorted(maps.Keys(config.Methods)) {
		method := config.Methods[path]
		if method.Policy.MaxAttempts < 2 { // it has no retryPolicy
			continue
		}
		i := imported{policy: fileOf(method.Policy), names: []string{cmp.Or(strings.Trim(path, "/"), "all methods")}}
		i.warn("which status codes are retried is for the program: backoffgrpc.ParseServiceConfig makes its Policy.Classify")
		if method.Timeout > 0 {
			i.warn("the timeout of %v ends all attempts together: that is for the context of the call", method.Timeout)
		}
		policies = append(policies, i)
	}
	return policies, nil
}

// fileOf returns the policy file for a policy of a service config.
func fileOf(p backoff.Policy) policyFile {
	file := policyFile{
		Name: strings.Trim(p.Name, "/"), MaxAttempts: p.MaxAttempts, MaxRetryAfter: int(p.MaxRetryAfter),
		Jitter: map[string]any{"uniform": map[string]float64{"low": 0.8, "high": 1.2}},
	}
	if e, ok := p.Schedule.(backoff.Exponential); ok {
		file.Schedule = map[string]any{"exponential": exponentialJSON{e.Initial.String(), e.Max.String(), e.Multiplier}}
	} else {
		var delays []string
		for retry := 1; retry < p.MaxAttempts; retry++ {
			delays = append(delays, p.Schedule.Delay(retry).String())
		}
		file.Schedule = map[string]any{"sequence": delays}
	}
	if b, ok := p.Budget.(*presets.GRPCThrottling); ok {
		file.Budget = map[string]any{"grpcThrottling": map[string]any{"maxTokens": b.MaxTokens, "tokenRatio": b.TokenRatio}}
	}
	return file
}
