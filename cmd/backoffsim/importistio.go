package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// An istioRoute is an HTTP route of a VirtualService.
type istioRoute struct {
	Name, Timeout string
	Retries       *struct {
		Attempts                        *int
		Backoff, PerTryTimeout, RetryOn string

		RetryRemoteLocalities, RetryIgnorePreviousHosts json.RawMessage
	}
}

// importIstio returns the policies of a VirtualService, one for each HTTP route
// with retries. Istio's attempts are retries, and its backoff is Envoy's base
// interval: the delay doubles from there, up to ten times the interval (see
// presets.Istio).
func importIstio(text []byte) ([]imported, error) {
	var service struct{ HTTP []istioRoute }
	if err := json.Unmarshal(text, &service); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	var policies []imported
	for n, route := range service.HTTP {
		if route.Retries == nil {
			continue
		}
		p := imported{names: []string{strconv.Itoa(n)}}
		if route.Name != "" {
			p.names = []string{route.Name, strconv.Itoa(n)}
		}
		at := fmt.Sprintf("spec.http[%d]", n)
		if err := p.istio(at, &route); err != nil {
			return nil, fmt.Errorf("%s.retries: %w", at, err)
		}
		policies = append(policies, p)
	}
	return policies, nil
}

// istio sets the policy file for the retries of a route, and warns.
func (i *imported) istio(at string, route *istioRoute) error {
	retries := route.Retries
	if n := retries.Attempts; n == nil || *n < 0 || *n > math.MaxInt32-1 {
		return fmt.Errorf("attempts is missing or out of range, want 0 or more")
	}
	base, err := istioDuration("backoff", retries.Backoff, 25*time.Millisecond)
	if err != nil {
		return err
	}
	each, err := istioDuration("perTryTimeout", retries.PerTryTimeout, 0)
	if err != nil {
		return err
	}
	i.policy = policyFile{
		Name:        route.Name,
		MaxAttempts: *retries.Attempts + 1,
		Schedule:    map[string]any{"exponential": exponentialJSON{Initial: base.String(), Max: (10 * base).String()}},
		Jitter:      "full",
	}
	if each > 0 {
		i.policy.AttemptTimeout = each.String()
	}
	if on := retries.RetryOn; on == "" {
		i.warn("%s.retries.retryOn is not there, and means Istio's default: what is retried is for the program, Policy.Classify", at)
	} else {
		i.warn("%s.retries.retryOn is for the program: Policy.Classify, by presets.EnvoyRetryOn(%q)", at, on)
	}
	i.warn("Envoy waits a whole number of milliseconds below the delay, and full jitter any time: see presets.EnvoySource")
	if route.Timeout != "" {
		i.warn("%s.timeout %s ends all attempts together: that is for the context of the call", at, route.Timeout)
	} else if each == 0 {
		i.warn("%s.retries.perTryTimeout is not there, and no timeout: an attempt may take as long as its context lets it", at)
	}
	if retries.RetryRemoteLocalities != nil || retries.RetryIgnorePreviousHosts != nil {
		i.warn("which host gets a retry is left out")
	}
	return nil
}

// istioDuration reads a duration of at least a millisecond, such as 2s or 1h30m.
func istioDuration(name, text string, otherwise time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > math.MaxInt64/10 {
		return 0, fmt.Errorf("%s is %s, want a duration of 1ms or more, such as 2s", name, oneLine(strconv.Quote(text)))
	}
	return d, nil
}
