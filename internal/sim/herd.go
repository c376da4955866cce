package sim

import (
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

// Herd is one of the reference's variants of 1000 clients that fail together and try again
// until they are served, by a server that can do 500 a second and holds 50:
//
//	A1  it is up at once
//	A2  it is down for 5 s
//	A3  as A1, and holds any number
//	A4  as A1; the clients have a base of 1 s (see HerdReferences)
//	A5  it is down for 30 s
//	A6  as A1, with five times the delay on the network, and ten times its spread
func Herd(variant string) (Scenario, error) {
	s := Scenario{
		Name:    "herd " + variant,
		Trace:   Trace{{Count: 1000}},
		Failed:  true,
		Timeout: time.Second,
		Delay:   5 * time.Millisecond,
		DelaySD: time.Millisecond,
		Server:  Server{Service: Exact(2 * time.Millisecond), Limit: 50},
		Horizon: 600 * time.Second,
	}
	switch variant {
	case "A1", "A4":
	case "A2":
		s.Fault = Fault{For: 5 * time.Second, Down: true}
	case "A3":
		s.Server.Limit = 0
	case "A5":
		s.Fault = Fault{For: 30 * time.Second, Down: true}
	case "A6":
		s.Delay, s.DelaySD = 25*time.Millisecond, 10*time.Millisecond
	default:
		return Scenario{}, fmt.Errorf("herd: there is no variant %q, want A1 to A6", variant)
	}
	return s, nil
}

// HerdReferences are the strategies of the reference for a variant, with as many attempts as
// it takes: base 100 ms, or 1 s for A4, cap 10 s.
func HerdReferences(variant string) []Client {
	base := 100 * time.Millisecond
	if variant == "A4" {
		base = time.Second
	}
	strategy := func(name string, s backoff.Schedule, j backoff.Jitter) Client {
		return Under(name, backoff.Policy{MaxAttempts: -1, Schedule: s, Jitter: j}, nil, nil)
	}
	growing := backoff.Exponential{Initial: base, Max: 10 * time.Second}
	return []Client{
		strategy("immediate", backoff.Constant(0), backoff.NoJitter),
		strategy("constant 1 s", backoff.Constant(time.Second), backoff.NoJitter),
		strategy("exponential", growing, backoff.NoJitter),
		strategy("exponential ±50 %", growing, backoff.UniformJitter(0.5, 1.5)),
		strategy("equal jitter", growing, backoff.EqualJitter),
		strategy("full jitter", growing, backoff.FullJitter),
		strategy("decorrelated jitter", growing, backoff.DecorrelatedJitter(base, 10*time.Second)),
	}
}
