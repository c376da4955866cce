package sim

import "time"

// Chain returns the reference's chain of calls: three layers before a service
// that answers at once. For 600 s every attempt at the service fails with
// probability p. Calls begin exactly 10 ms apart. The figures are those of the
// last 300 s of the fault.
func Chain(p float64) Scenario {
	const healthy, fault = 120 * time.Second, 600 * time.Second
	return Scenario{
		Name:      "chain",
		Every:     10 * time.Millisecond,
		Layers:    3,
		Fault:     Fault{From: healthy, For: fault, Errors: p},
		Horizon:   healthy + fault + 1200*time.Second,
		From:      healthy + fault/2,
		To:        healthy + fault,
		Recovered: 0.99,
	}
}
