package spec

import (
	"errors"

	"github.com/gobackoff/backoff"
)

// breaker is the object of a circuit breaker. Its members are the fields of
// [backoff.Breaker] that are data.
type breaker struct {
	FailureRate         float64   `json:"failureRate,omitzero"`
	MinCalls            int       `json:"minCalls,omitzero"`
	Window              duration  `json:"window,omitzero"`
	WindowCalls         int       `json:"windowCalls,omitzero"`
	ConsecutiveFailures int       `json:"consecutiveFailures,omitzero"`
	ConsecutiveSpan     duration  `json:"consecutiveSpan,omitzero"`
	SlowCall            duration  `json:"slowCall,omitzero"`
	SlowRate            float64   `json:"slowRate,omitzero"`
	OpenFor             *schedule `json:"openFor,omitzero"`
	Jitter              *jitter   `json:"jitter,omitzero"`
	MaxRetryAfter       duration  `json:"maxRetryAfter,omitzero"`
	MaxProbes           int       `json:"maxProbes,omitzero"`
	ProbeSuccesses      int       `json:"probeSuccesses,omitzero"`
	ProbeTimeout        duration  `json:"probeTimeout,omitzero"`
	RampUp              duration  `json:"rampUp,omitzero"`
	MinAttemptTime      duration  `json:"minAttemptTime,omitzero"`
}

// check returns the problems of a breaker that the library would refuse.
func (b *breaker) check(path string) error {
	if b == nil {
		return nil
	}
	others := *b
	others.OpenFor, others.Jitter = nil, nil
	return errors.Join(
		b.OpenFor.check(path+".openFor"),
		b.Jitter.check(path+".jitter"),
		relocate(path, "Breaker", others.build("").Validate()),
	)
}

// build returns a new breaker; nil for nil.
func (b *breaker) build(name string) *backoff.Breaker {
	if b == nil {
		return nil
	}
	return &backoff.Breaker{
		Name:                name,
		FailureRate:         b.FailureRate,
		MinCalls:            b.MinCalls,
		Window:              b.Window.value(),
		WindowCalls:         b.WindowCalls,
		ConsecutiveFailures: b.ConsecutiveFailures,
		ConsecutiveSpan:     b.ConsecutiveSpan.value(),
		SlowCall:            b.SlowCall.value(),
		SlowRate:            b.SlowRate,
		OpenFor:             b.OpenFor.build(),
		Jitter:              b.Jitter.build(),
		MaxRetryAfter:       b.MaxRetryAfter.value(),
		MaxProbes:           b.MaxProbes,
		ProbeSuccesses:      b.ProbeSuccesses,
		ProbeTimeout:        b.ProbeTimeout.value(),
		RampUp:              b.RampUp.value(),
		MinAttemptTime:      b.MinAttemptTime.value(),
	}
}
