package sim

import "time"

// A Figure is the mean over the seeds, with its standard error. SE is 0 for a single seed.
type Figure struct{ Mean, SE float64 }

// A Result is what became of one client in a scenario. Hops are counted from the user:
// hop 0 is the calls of the first layer to the next, and the last hop those that reach
// the service. Times are seconds. Unless it says otherwise a figure is of the time from
// Scenario.From to Scenario.To; a call counts where it ends, an attempt where it is sent.
type Result struct {
	Client string
	Seeds  int

	// Success is the share of calls that ended well, and Lost the number that did not.
	Success, Lost Figure
	// Unfinished is the number of calls of the whole run that were under way at its end.
	Unfinished Figure
	// Amplification is, per hop, the attempts per call of the users. Peak is that of the
	// worst second, against the mean rate of calls or that of the second, whichever
	// is higher; there is none where the calls had Failed before.
	Amplification, Peak []Figure
	// PeakArrivals is the most attempts that reach the service in any 100 ms after the
	// beginning of the fault, or, where the service is Down, after its end.
	PeakArrivals Figure
	// Recovery is the time from the end of the fault until the service has recovered, of
	// the seeds in which it does, and Slowest the longest of these. Never is the number of seeds
	// in which it does not.
	Recovery Figure
	Slowest  float64
	Never    int
	// Wasted is the attempts that reached the service and did not make a call succeed, in
	// the whole run.
	Wasted Figure
	// AddedP50 and AddedP99 are quantiles of the time that successful calls took, less the
	// same quantile of the service's own time without any queue, fault, or retry.
	AddedP50, AddedP99 Figure
	// Mean and P99 are the times that all successful calls of the whole run took.
	Mean, P99 Figure
	// Drain is the time from the end of the fault to the last success.
	Drain Figure
	// Onset is the amplification of the last hop in the first 10 s of the fault.
	Onset Figure
	// Attempts is the number of simulated attempts at the service in all seeds.
	Attempts int

	// Series has an element for every second.
	Series []Point
	// Arrivals is the mean number of attempts that reach the service, per 100 ms.
	Arrivals []float64
}

// A Point is one second of a run, as mean and 5 and 95 % quantiles of the seeds.
type Point struct {
	Calls    float64 // begun
	Good     Band    // calls that ended well
	Lost     float64 // calls that did not
	Attempts Band    // that reached the service
}

// A Band is a mean with the quantiles of the seeds.
type Band struct{ Mean, P5, P95 float64 }

// Options say how often a scenario is run.
type Options struct {
	// Seeds is the number of runs for each client. 0 means 10.
	Seeds int
	// First is the first seed. The same seed gives the same numbers.
	First uint64
	// Progress, if not nil, is told after each run how many of all runs are done.
	Progress func(done, total int)
}

// CliffAxis is what [FindCliff] varies.
type CliffAxis uint8

const (
	// CliffLoad varies the rate of calls, as a share of capacity.
	CliffLoad CliffAxis = iota
	// CliffDip varies the length of the fault, in seconds.
	CliffDip
)

// A Cliff is where a client stops to recover: it did at Safe, and did not at Unsafe. If it
// recovers everywhere that was looked, Unsafe is 0; if nowhere, Safe is.
type Cliff struct{ Safe, Unsafe float64 }

// Gates are the limits a build can fail on. 0 means no limit.
type Gates struct {
	MaxAmplification float64       // mean of the last hop
	MustRecover      time.Duration // after the end of the fault, in every seed
	MinSuccess       float64       // share of calls, from 0 to 1
}
