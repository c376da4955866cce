package chart

// A Chart is one picture with its table of numbers: a [Dip], [Failure], [Map],
// [Herd], [OCC], [Layers] or [Delays].
type Chart interface {
	// draw checks the data and makes the layout.
	draw() (*figure, error)
}

// Frame surrounds every picture: it says what is shown and how to reproduce it.
// Like all texts of a chart, its texts have at most 1000 letters and no control
// characters.
type Frame struct {
	// Title is the heading. Empty means the chart's default.
	Title string
	// Conditions is the line below the heading: load, capacity, timeouts and
	// the fault.
	Conditions string
	// Notes are lines at the end of the caption, such as verdicts and warnings.
	Notes []string
	// Seed is the first seed, and Seeds is how many were run. If Seeds is 0
	// nothing is random, and the caption names no seed.
	Seed  uint64
	Seeds int
	// Version is the version of the program. Empty leaves it out.
	Version string
}

// Policy names the policy of a line, panel or group of bars. A chart has from 1
// to 12 policies, with distinct short names. The caption gives the Parameters
// in full. The order decides about colours, dashes and numbers, so charts of
// the same policies should have the policies in the same order.
type Policy struct {
	Name       string
	Parameters string
}

// Band has a value for each point of the x axis: the mean over the seeds, with
// the 5 % and 95 % quantiles. Low and High are empty if there was one seed.
type Band struct {
	Mean, Low, High []float64
}

// Estimate has a value for each point of the x axis with its standard error. It
// is drawn with bars of two standard errors each way. SE is empty if there was
// one seed.
type Estimate struct {
	Mean, SE []float64
}

// Dip shows the goodput while and after a server is slow for a while, and below
// it the load on the server.
type Dip struct {
	Frame
	// Seconds is the x axis, ascending.
	Seconds []float64
	// From and To bound the fault, in seconds. Trigger describes the fault.
	From, To float64
	Trigger  string
	Lines    []DipLine
}

// DipLine is one policy in a [Dip].
type DipLine struct {
	Policy
	// Goodput is in percent of the offered requests.
	Goodput Band
	// Attempts is the load on the server as a multiple of its capacity.
	Attempts Band
	// Recovery is in seconds after the fault. +Inf means never.
	Recovery float64
}

// Failure shows how many calls a request causes when calls fail with a given
// probability, and how many requests succeed. The calls have a logarithmic
// scale if they span more than a factor of ten, as in a chain of services.
type Failure struct {
	Frame
	// Probability is the x axis, with ascending values from 0 to 1.
	Probability []float64
	Lines       []FailureLine
}

// FailureLine is one policy in a [Failure].
type FailureLine struct {
	Policy
	// Calls is how many calls reach the server for each request.
	Calls Band
	// Success is in percent of the requests.
	Success Band
}

// Map shows how long the recovery takes for each load and each length of a
// fault. There is one small map for each policy, with the user's own scenario
// marked.
type Map struct {
	Frame
	// Load is the x axis, in percent of capacity, and Y is the y axis. Both
	// ascend. YLabel names Y with its unit: "dip, s".
	Load, Y []float64
	YLabel  string
	// Horizon is how many seconds after the fault each run ended.
	Horizon float64
	// Mark is the user's own scenario, or nil.
	Mark *Mark
	Maps []PolicyMap
}

// PolicyMap is one policy in a [Map].
type PolicyMap struct {
	Policy
	// Recovery is in seconds. It has a row for each Y, with a value for each
	// Load. +Inf means never within the horizon.
	Recovery [][]float64
}

// Mark is a point of a [Map], within the axes. It may lie between two values of
// an axis.
type Mark struct {
	Load, Y float64
	// Label names the mark. Empty means "you".
	Label string
}

// Herd shows the arrivals at a server when many clients come back at once.
// There is one panel for each strategy, all with the same y axis.
type Herd struct {
	Frame
	// Seconds are the starts of the bins of arrivals, in equal steps.
	Seconds []float64
	// From and To bound the time in which the server is down, in seconds. Both
	// are 0 if it is never down.
	From, To float64
	// Capacity is how many attempts the server can serve in one bin.
	Capacity float64
	Panels   []HerdPanel
}

// HerdPanel is one strategy in a [Herd].
type HerdPanel struct {
	Policy
	// Arrivals is how many attempts arrive in each bin.
	Arrivals Band
	// Peak is the most arrivals in any window as long as a bin, over the whole
	// run, including the part that is not shown.
	Peak float64
	// Drain is when the last client is served, in seconds. +Inf means never.
	Drain float64
}

// OCC shows the cost of optimistic concurrency control for clients that contend
// for one row: the calls, and below them the time until all clients have
// succeeded, on a logarithmic scale.
type OCC struct {
	Frame
	// Clients is the x axis, ascending.
	Clients []float64
	Lines   []OCCLine
}

// OCCLine is one strategy in an [OCC].
type OCCLine struct {
	Policy
	Calls Estimate
	// Time is in seconds.
	Time Estimate
}

// Layers shows how many calls one request of a user causes at each hop of a
// chain, as bars on a logarithmic scale.
type Layers struct {
	Frame
	// Hops are the names of the hops, from the user on.
	Hops     []string
	Policies []LayersPolicy
}

// LayersPolicy is one policy in a [Layers].
type LayersPolicy struct {
	Policy
	// Calls is the number of calls per request of a user, for each hop.
	Calls []float64
}

// Delays shows the wait before each retry with the range of its jitter, and the
// total wait up to that retry. Seeds is not used.
type Delays struct {
	Frame
	// Deadline is drawn across the total waits, in seconds. 0 means none.
	Deadline float64
	Lines    []DelaysLine
}

// DelaysLine is one policy in a [Delays]. The first value of each Band is for
// the first retry, and lines may differ in length. Low and High are the
// smallest and the largest value that the jitter allows, not quantiles.
type DelaysLine struct {
	Policy
	// Delay is in seconds.
	Delay Band
	// Elapsed is the sum of the delays so far, in seconds.
	Elapsed Band
}
