package main

import (
	"fmt"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// figures say how a client has done, from the beginning of the dip on. They are
// those of the simulator's tables.
type figures struct {
	success  float64 // share of the calls
	recovery float64 // seconds from the end of the dip; -1 if it was not seen
	never    int     // of 10 simulations
	attempts float64 // per call
}

// A service has recovered when this share of the calls succeeds for so many
// seconds.
const (
	recoveredShare = 0.9
	recoveredFor   = 5
)

// figures returns those of a run.
func (r *run) figures() figures {
	from := seconds(r.Setup.From)
	calls, good, lost, attempts := sum(r.Fleet.Calls[from:]), sum(r.Fleet.Good[from:]), sum(r.Fleet.Lost[from:]), sum(r.Fleet.Attempts[from:])
	return figures{success: good / (good + lost), recovery: r.recovery(), attempts: attempts / calls}
}

func sum(counts []count) (all float64) {
	for i := range counts {
		all += float64(counts[i].Load())
	}
	return all
}

// recovery returns the seconds from the end of the dip to the first second of
// those in a row that have enough successes, or -1.
func (r *run) recovery() float64 {
	end, steady := seconds(r.Setup.From+r.Setup.For), 0
	for i := end; i < len(r.Fleet.Good); i++ {
		if float64(r.Fleet.Good[i].Load()) < recoveredShare*r.Setup.rate() {
			steady = 0
			continue
		}
		if steady++; steady == recoveredFor {
			return float64(i + 1 - recoveredFor - end)
		}
	}
	return -1
}

// simulations is how often the simulator runs.
const simulations = 10

// simulate runs the simulator with the setup and the client of a run.
func (r *run) simulate() (sim.Result, error) {
	results, err := sim.Compare(r.Setup.scenario(), []sim.Client{clientNamed(r.Client).model(r.Setup)},
		sim.Options{Seeds: simulations, First: r.Setup.Seed})
	if err != nil {
		return sim.Result{}, err
	}
	return results[0], nil
}

// simulated returns the figures of a simulation.
func simulated(r sim.Result) figures {
	f := figures{success: r.Success.Mean, recovery: r.Recovery.Mean, never: r.Never, attempts: r.Amplification[0].Mean}
	if r.Never == r.Seeds {
		f.recovery = -1
	}
	return f
}

// recovers says how long the recovery takes.
func (f figures) recovers(s setup) string {
	left := fmt.Sprintf("not in %d s", seconds(s.Horizon-s.From-s.For))
	switch {
	case f.recovery < 0:
		return left
	case f.never > 0:
		return fmt.Sprintf("%.3g s; in %d of %d %s", f.recovery, f.never, simulations, left)
	}
	return fmt.Sprintf("%.3g s", f.recovery)
}

// String says in a line how the run went.
func (r *run) String() string {
	f, v := r.figures(), &r.Service
	return fmt.Sprintf("recovery %s, success %.1f %%, %.2f attempts per call; processors: clients %.2f, service %.2f; a call begun %d us late, an answer %d us; %d arrived, %d refused, %d done, %d of them for nobody, at most %d in the queue",
		f.recovers(r.Setup), 100*f.success, f.attempts, r.FleetCPU, r.ServiceCPU, r.Fleet.LatestCall.Load(), v.LatestAnswer.Load(),
		v.Arrived.Load(), v.Refused.Load(), v.Done.Load(), v.Abandoned.Load(), v.LongestQueue.Load())
}
