package main

import (
	"math/rand/v2"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// A setup is what is the same for all clients of a run.
type setup struct {
	Load        int           // calls per second, in percent of the capacity
	Seed        uint64        // of the times of the calls
	Processes   int           // of clients; they share nothing
	MaxAttempts int           // of a call, at most
	Timeout     time.Duration // of an attempt
	Slots       int           // of the service: how much it does at once
	Service     time.Duration // how long a slot works on an attempt
	Queue       int           // how many attempts may wait for a slot
	Ports       int           // of the service
	Trouble     trouble       // what happens besides a dip
	From, For   time.Duration // of the dip, or of the trouble
	Left        float64       // of the capacity, in the dip
	Horizon     time.Duration // the length of the run
}

// usual returns the setup of the page for a load. Above 80 % the run is longer,
// because then even clients without retries need 50 s to recover.
func usual(load int) setup {
	s := setup{
		Load: load, Seed: 1, Processes: 20, MaxAttempts: 4, Timeout: time.Second,
		Slots: 20, Service: 20 * time.Millisecond, Queue: 10_000, Ports: 64,
		From: 30 * time.Second, For: 10 * time.Second, Left: 0.3, Horizon: 90 * time.Second,
	}
	if load > 80 {
		s.Horizon = 120 * time.Second
	}
	return s
}

// A trouble is one that most services have. It asks less of a client than a dip.
type trouble string

const (
	noTrouble trouble = ""        // a dip
	byChance  trouble = "chance"  // one attempt in five gets a 503
	restart   trouble = "restart" // connections are refused
)

// troubles are all of them, in the order of the page.
var troubles = []trouble{byChance, restart}

// failing is the share of attempts that fail by chance.
const failing = 0.2

// troubled returns the setup of the page for a trouble. The service has room.
func troubled(t trouble) setup {
	s := usual(40)
	s.Trouble, s.Left = t, 1
	s.From, s.For, s.Horizon = 5*time.Second, 25*time.Second, 30*time.Second
	if t == restart {
		s.From, s.For = 10*time.Second, 3*time.Second
	}
	return s
}

// in reports whether a time is in the dip or the trouble.
func (s setup) in(at time.Duration) bool { return at >= s.From && at < s.From+s.For }

// trial returns a setup that takes 20 s and has the ratios of the page's.
func trial(load int) setup {
	s := usual(load)
	s.From, s.For, s.Horizon = 4*time.Second, 4*time.Second, 20*time.Second
	return s
}

// scenario returns the same as a scenario of the simulator.
func (s setup) scenario() sim.Scenario {
	c := sim.Dip()
	c.Rate, c.Processes, c.Timeout, c.Horizon = s.rate(), s.Processes, s.Timeout, s.Horizon
	c.Server = sim.Server{Servers: s.Slots, Service: sim.Exact(s.Service), Limit: s.Slots + s.Queue}
	c.Fault = sim.Fault{From: s.From, For: s.For, Capacity: s.Left}
	return c
}

// capacity returns how many attempts the service can do in a second.
func (s setup) capacity() float64 { return float64(s.Slots) / s.Service.Seconds() }

// rate returns how many calls begin in a second, on average.
func (s setup) rate() float64 { return s.capacity() * float64(s.Load) / 100 }

// work returns how long a slot works on an attempt that it begins at a time.
func (s setup) work(at time.Duration) time.Duration {
	if s.in(at) {
		return time.Duration(float64(s.Service) / s.Left)
	}
	return s.Service
}

// arrivals returns when the calls begin. They are those of the simulator's
// seed.
func (s setup) arrivals() []time.Duration {
	const ofTraffic = 0xbf58476d1ce4e5b9 // the simulator's stream of random numbers for arrivals
	random := rand.New(rand.NewPCG(s.Seed, ofTraffic))
	gap := float64(time.Second) / s.rate()
	var all []time.Duration
	for at := time.Duration(0); ; {
		at += max(1, time.Duration(random.ExpFloat64()*gap))
		if at >= s.Horizon {
			return all
		}
		all = append(all, at)
	}
}
