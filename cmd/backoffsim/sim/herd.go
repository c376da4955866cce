package sim

import (
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

// Herd returns a variant of the reference's herd: 1000 clients fail together
// and retry until they are served, by a server that can serve 500 a second and
// has a queue of 50. The variants are:
//
//	A1  the server is up at once
//	A2  the server is down for 5 s
//	A3  as A1, with an unlimited queue
//	A4  as A1; the clients have a base of 1 s (see HerdReferences)
//	A5  the server is down for 30 s
//	A6  as A1, with 5 times the network delay and 10 times its deviation
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

// HerdReferences returns the strategies of the reference for a variant, without
// a limit on attempts. The base is 100 ms, or 1 s for A4, and the cap is 10 s.
func HerdReferences(variant string) []Client {
	base := 100 * time.Millisecond
	if variant == "A4" {
		base = time.Second
	}
	strategy := func(name string, s backoff.Schedule, j backoff.Jitter) Client {
		return NewClient(name, backoff.Policy{MaxAttempts: -1, Schedule: s, Jitter: j}, nil, nil)
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
