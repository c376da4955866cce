package main

import (
	"math"
	"strconv"
	"time"
)

// importIstio returns the policies of a VirtualService, one for each HTTP route
// with retries. Istio's attempts are retries, and its backoff is Envoy's base
// interval: the delay doubles from there, up to ten times the interval (see
// presets.Istio).
func importIstio(root *object) ([]imported, error) {
	service, err := root.object("spec")
	if err != nil {
		return nil, err
	}
	routes, err := service.list("http")
	if err != nil {
		return nil, err
	}
	var policies []imported
	for n, route := range routes {
		retries, err := route.object("retries")
		if err != nil {
			return nil, err
		}
		if retries == nil {
			continue
		}
		p := imported{names: []string{strconv.Itoa(n)}}
		name := ""
		if _, err := route.get("name", &name, "a text"); err != nil {
			return nil, err
		}
		if name != "" {
			p.names = []string{name, strconv.Itoa(n)}
		}
		if p.policy, err = p.istio(name, route, retries); err != nil {
			return nil, err
		}
		policies = append(policies, p)
	}
	return policies, nil
}

// istio returns the policy file for the retries of a route.
func (i *imported) istio(name string, route, retries *object) (*policyFile, error) {
	var attempts float64
	if _, err := retries.get("attempts", &attempts, "a whole number of 0 or more"); err != nil {
		return nil, err
	}
	if !retries.has("attempts") || attempts != math.Trunc(attempts) || attempts < 0 || attempts > math.MaxInt32-1 {
		return nil, retries.invalid("attempts", "a whole number of 0 or more")
	}
	base, err := retries.goDuration("backoff", 25*time.Millisecond)
	if err != nil {
		return nil, err
	}
	if base < time.Millisecond || base > math.MaxInt64/10 {
		return nil, retries.invalid("backoff", "1ms or more")
	}
	each, err := retries.goDuration("perTryTimeout", 0)
	if err != nil {
		return nil, err
	}
	file := &policyFile{
		Name:        name,
		MaxAttempts: int(attempts) + 1,
		Schedule:    map[string]any{"exponential": exponentialJSON{Initial: base.String(), Max: (10 * base).String()}},
		Jitter:      "full",
	}
	if each > 0 {
		file.AttemptTimeout = each.String()
	}
	return file, i.istioWarnings(route, retries, each)
}

// istioWarnings adds the warnings about a route.
func (i *imported) istioWarnings(route, retries *object, each time.Duration) error {
	on := ""
	if _, err := retries.get("retryOn", &on, "a text"); err != nil {
		return err
	}
	if on == "" {
		i.warn("%s is not there, and means Istio's default: what is retried is for the program, Policy.Classify", retries.at("retryOn"))
	} else {
		i.warn("%s is for the program: Policy.Classify, by presets.EnvoyRetryOn(%q)", retries.at("retryOn"), on)
	}
	i.warn("Envoy waits a whole number of milliseconds below the delay, and full jitter any time: see presets.EnvoySource")
	total := ""
	if _, err := route.get("timeout", &total, "a text"); err != nil {
		return err
	}
	if total != "" {
		i.warn("%s %s ends all attempts together: that is for the context of the call", route.at("timeout"), total)
	} else if each == 0 {
		i.warn("%s is not there, and no timeout: an attempt may take as long as its context lets it", retries.at("perTryTimeout"))
	}
	retries.warnOfUnread(i)
	return nil
}

// goDuration reads a duration in Istio's notation, such as 2s or 1h30m. It
// returns otherwise if there is none.
func (o *object) goDuration(name string, otherwise time.Duration) (time.Duration, error) {
	var text string
	ok, err := o.get(name, &text, `a duration such as "2s"`)
	if !ok || err != nil {
		return otherwise, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, o.refuse(name, `a duration such as "2s"`)
	}
	return d, nil
}
