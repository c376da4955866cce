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
