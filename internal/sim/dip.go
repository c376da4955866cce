package sim

import "time"

// Dip is the reference's metastable overload: 800 calls a second, by 20 processes, to
// one server that can do 1000, and 300 from second 30 to 40. Attempts take a second at
// most, of which the server knows nothing.
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

// ClosedDip is Dip with users who each think for so long between calls; as many that they
// would call 800 times a second.
func ClosedDip(think time.Duration) Scenario {
	s := Dip()
	s.Name, s.Rate, s.Think = "closed dip", 0, think
	s.Users = int(800 * (think.Seconds() + 0.005)) // who each wait 5 ms, before the dip
	return s
}
