package sim

import "time"

// Chain is the reference's chain of calls: three layers before a service that answers at
// once, and of which every attempt fails with the probability p for 600 s. Calls begin
// exactly 10 ms apart. The figures are of the last 300 s of the fault.
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
