package spec

import "github.com/gobackoff/backoff"

type breaker struct {
	FailureRate float64   `json:"failureRate,omitzero"`
	MinCalls    int       `json:"minCalls,omitzero"`
	Window      duration  `json:"window,omitzero"`
	WindowCalls int       `json:"windowCalls,omitzero"`
	Streak      int       `json:"streak,omitzero"`
	StreakSpan  duration  `json:"streakSpan,omitzero"`
	SlowCall    duration  `json:"slowCall,omitzero"`
	SlowRate    float64   `json:"slowRate,omitzero"`
	OpenFor     *schedule `json:"openFor,omitzero"`
	Jitter      *jitter   `json:"jitter,omitzero"`
	MaxHint     duration  `json:"maxHint,omitzero"`
	Probes      int       `json:"probes,omitzero"`
	Successes   int       `json:"successes,omitzero"`
	Lease       duration  `json:"lease,omitzero"`
	Ramp        duration  `json:"ramp,omitzero"`
	MinAttempt  duration  `json:"minAttempt,omitzero"`
}

func (b *breaker) check(path string) error {
	if b == nil {
		return nil
	}
	if err := b.OpenFor.check(path + ".openFor"); err != nil {
		return err
	}
	if err := b.Jitter.check(path + ".jitter"); err != nil {
		return err
	}
	return at(path, "Breaker", b.build("").Validate())
}

func (b *breaker) build(name string) *backoff.Breaker {
	if b == nil {
		return nil
	}
	return &backoff.Breaker{
		Name:        name,
		FailureRate: b.FailureRate,
		MinCalls:    b.MinCalls,
		Window:      b.Window.value(),
		WindowCalls: b.WindowCalls,
		Streak:      b.Streak,
		StreakSpan:  b.StreakSpan.value(),
		SlowCall:    b.SlowCall.value(),
		SlowRate:    b.SlowRate,
		OpenFor:     b.OpenFor.build(),
		Jitter:      b.Jitter.build(),
		MaxHint:     b.MaxHint.value(),
		Probes:      b.Probes,
		Successes:   b.Successes,
		Lease:       b.Lease.value(),
		Ramp:        b.Ramp.value(),
		MinAttempt:  b.MinAttempt.value(),
	}
}
