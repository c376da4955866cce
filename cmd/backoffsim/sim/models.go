package sim

import "time"

// Dip returns the reference's metastable overload. Users make 800 calls a
// second, through 20 processes, to one server that can serve 1000 a second, and
// only 300 a second from second 30 to 40. An attempt times out after a second,
// and the server does not notice.
func Dip() Scenario {
	return Scenario{
		Name:      "dip",
		Rate:      800,
		Processes: 20,
		Timeout:   time.Second,
		Server:    Server{Service: Exponential(time.Millisecond)},
		Fault:     Fault{From: 30 * time.Second, For: 10 * time.Second, Capacity: 0.3},
		Horizon:   240 * time.Second,
	}
}

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

// Herd returns the reference's herd: 1000 clients fail together and retry until
// they are served, by a server that can serve 500 a second and has a queue of 50.
func Herd() Scenario {
	return Scenario{
		Name:    "herd",
		Trace:   Trace{{Count: 1000}},
		Failed:  true,
		Timeout: time.Second,
		Delay:   5 * time.Millisecond,
		DelaySD: time.Millisecond,
		Server:  Server{Service: Exact(2 * time.Millisecond), Limit: 50},
		Horizon: 600 * time.Second,
	}
}

// RateLimit returns a job of 1000 calls, which 50 workers make as fast as they
// can, at an API that accepts 100 a second, and 100 at once after a pause. So the
// job takes 9 s at the least. The service itself takes no time, and a message 1
// ms.
func RateLimit() Scenario {
	return Scenario{
		Name:    "ratelimit",
		Users:   50,
		Calls:   1000,
		Delay:   time.Millisecond,
		Server:  Server{Rate: 100, Burst: 100},
		Horizon: 10 * time.Minute,
	}
}
