package sim

import "time"

// A Figure is a mean over the seeds with its standard error. SE is 0 for a
// single seed.
type Figure struct {
	Mean float64 `json:"mean"`
	SE   float64 `json:"se"`
}

// A Result is what a client achieved in a scenario. Hops are counted from the
// user: hop 0 has the attempts of the first layer at the next one, and the last
// hop has the attempts at the service. Times are in seconds. A figure covers
// the time from Scenario.From to Scenario.To, unless its comment says
// otherwise. A call counts when it ends, and an attempt when it is sent. A call
// that is under way at the end of that time is lost, if it began more than
// Scenario.Timeout or a second before, whichever is longer. A younger one does
// not count.
type Result struct {
	// Client is the name of the client, and Seeds the number of runs.
	Client string `json:"policy"`
	Seeds  int    `json:"-"`

	// Success is the share of calls that succeeded, and Lost the number of
	// calls that failed or were under way at the end. Calls is the number of
	// all that count, in all seeds.
	Success Figure `json:"success"`
	Lost    Figure `json:"lost"`
	Calls   int    `json:"-"`
	// Amplification is, for each hop, the attempts per call of a user. Peak is
	// the amplification of the worst second, relative to the mean rate of calls
	// or the rate of that second, whichever is higher. There is no Peak in a
	// scenario whose calls have Failed.
	Amplification []Figure `json:"amplification"`
	Peak          []Figure `json:"peakAmplification"`
	// PeakArrivals is the most attempts that reach the service in any 100 ms
	// after the fault begins or, if the service is Down, after the fault ends.
	PeakArrivals Figure `json:"peakArrivalsPer100ms"`
	// Recovery is the time from the end of the fault until the service has
	// recovered, over the seeds in which it recovers. Slowest is the longest of
	// these times. Never is the number of seeds in which it does not recover.
	Recovery Figure  `json:"recoverySeconds"`
	Slowest  float64 `json:"slowestRecoverySeconds"`
	Never    int     `json:"neverRecovered"`
	// Wasted is the number of attempts in the whole run that reached the
	// service and did not make a call succeed.
	Wasted Figure `json:"wasted"`
	// Throttled is the share of all attempts of the whole run that the service
	// answered with "too much".
	Throttled Figure `json:"throttled"`
	// AddedP50 and AddedP99 are quantiles of the time that calls took, minus
	// the same quantile of the service time without queue, fault or retry. They
	// cover calls that succeeded, and calls that were under way at the end with
	// the time that they had taken so far.
	AddedP50 Figure `json:"addedP50Seconds"`
	AddedP99 Figure `json:"addedP99Seconds"`
	// Mean and P99 are those of the times that the same calls of the whole run
	// took.
	Mean Figure `json:"meanSeconds"`
	P99  Figure `json:"p99Seconds"`
	// Drain is the time from the end of the fault to the last success. If the
	// users make only so many Calls, it is the time from the beginning.
	Drain Figure `json:"drainSeconds"`
	// Onset is the amplification of the last hop during the first 10 s of the
	// fault.
	Onset Figure `json:"-"`
	// Attempts is the number of attempts that reached the service in all seeds.
	Attempts int `json:"-"`

	// Series has an element for each second.
	Series []Point `json:"perSecond"`
	// Arrivals is the mean number of attempts that reach the service in each
	// 100 ms.
	Arrivals []float64 `json:"-"`
}

// A Point is one second of a run, over all seeds.
type Point struct {
	Calls    float64 `json:"calls"`    // started
	Good     Band    `json:"good"`     // calls that succeeded
	Lost     float64 `json:"lost"`     // calls that failed
	Attempts Band    `json:"attempts"` // sent to the service
}

// A Band is the mean with the 5 % and 95 % quantiles over the seeds.
type Band struct {
	Mean float64 `json:"mean"`
	P5   float64 `json:"p5"`
	P95  float64 `json:"p95"`
}

// Options say how often to run a scenario.
type Options struct {
	// Seeds is the number of runs for each client. 0 means 10.
	Seeds int
	// First is the first seed. The same seeds give the same numbers.
	First uint64
}

// A CliffAxis is what [FindCliff] varies.
type CliffAxis uint8

const (
	// CliffLoad varies the rate of calls, as a share of the capacity.
	CliffLoad CliffAxis = iota
	// CliffDip varies the length of the fault, in seconds.
	CliffDip
)

// A Cliff is the point from which on a client does not recover: it recovered at
// Safe and did not at Unsafe. If it recovered at all points, Unsafe is 0. If it
// recovered at none, Safe is 0.
type Cliff struct{ Safe, Unsafe float64 }

// Gates are limits that make a build fail. 0 means no limit.
type Gates struct {
	MaxAmplification float64       // mean of the last hop
	MustRecover      time.Duration // after the end of the fault, in every seed
	MinSuccess       float64       // share of calls, from 0 to 1
}
