package main

import (
	"cmp"
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

// An istioOutlier is the outlierDetection of a DestinationRule.
type istioOutlier struct {
	Consecutive5xxErrors       *uint16
	ConsecutiveGatewayErrors   uint16
	Interval, BaseEjectionTime string
}

// importRule returns the breakers of a DestinationRule, one for its host and
// one for each subset that has its own. See presets.IstioOutlierDetection.
func importRule(text []byte) (all []imported, _ error) {
	type part struct {
		Name          string
		TrafficPolicy struct {
			OutlierDetection  *istioOutlier
			PortLevelSettings json.RawMessage
		}
	}
	var rule struct {
		Host string
		part
		Subsets []part
	}
	if err := json.Unmarshal(text, &rule); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	rule.Name = rule.Host
	for _, p := range append([]part{rule.part}, rule.Subsets...) {
		i := imported{names: []string{p.Name}}
		if p.TrafficPolicy.PortLevelSettings != nil {
			i.warn("portLevelSettings are left out")
		}
		if ejects, err := i.outlier(p.TrafficPolicy.OutlierDetection); err != nil {
			return nil, fmt.Errorf("outlierDetection of %s: %w", p.Name, err)
		} else if ejects {
			all = append(all, i)
		}
	}
	return all, nil
}

// outlier sets the policy file for an outlierDetection, and warns. It returns
// false if no errors eject a host.
func (i *imported) outlier(o *istioOutlier) (bool, error) {
	if o == nil {
		return false, nil
	}
	base, err := istioDuration("baseEjectionTime", o.BaseEjectionTime, 30*time.Second)
	interval, err2 := istioDuration("interval", o.Interval, 10*time.Second)
	if err := cmp.Or(err, err2); err != nil {
		return false, err
	}
	failures := uint16(5)
	if o.Consecutive5xxErrors != nil {
		failures = cmp.Or(*o.Consecutive5xxErrors, o.ConsecutiveGatewayErrors)
	}
	if o.ConsecutiveGatewayErrors > 0 {
		i.warn("consecutiveGatewayErrors counts 502, 503 and 504 only: that is for the program, Breaker.Classify")
	}
	i.warn("Envoy ejects one host of several, up to a share of them: give each host a breaker of its own, by guard.Services")
	i.warn("the policy makes one attempt: retries are in the VirtualService, and without one Istio makes 2")
	i.policy = policyFile{Name: i.names[0], MaxAttempts: 1, Breaker: map[string]any{
		"failureRate": -1, "consecutiveFailures": failures, "consecutiveSpan": -1, "window": interval.String(),
		"openFor": map[string]any{"linear": map[string]string{"initial": base.String(), "max": max(base, 5*time.Minute).String()}},
		"jitter":  "none", "maxProbes": -1, "probeSuccesses": 1,
	}}
	return failures > 0, nil
}
