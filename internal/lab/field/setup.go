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
	From, For   time.Duration // of the dip
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

// in reports whether a time is in the dip.
func (s setup) in(at time.Duration) bool { return at >= s.From && at < s.From+s.For }

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
