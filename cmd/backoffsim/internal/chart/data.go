package chart

// A Chart is one picture with its table of numbers: a [Dip], [Failure], [Map], [Herd],
// [OCC], [Layers] or [Delays].
type Chart interface {
	// draw checks the data and lays the picture out.
	draw() (*figure, error)
}

// Frame is what stands around every picture: what is shown, and how to get it again. As
// all texts of a chart, these have at most 1000 letters and no control characters.
type Frame struct {
	// Title is the heading; empty means the default of the chart.
	Title string
	// Conditions is the line below the heading: load, capacity, timeouts, what fails.
	Conditions string
	// Notes are sentences at the end of the caption, one line each, such as a verdict
	// or a warning.
	Notes []string
	// Seed is the first seed, and Seeds how many were run. With Seeds 0 nothing was
	// random, and the caption names no seed.
	Seed  uint64
	Seeds int
	// Version is that of the program; empty leaves it out.
	Version string
}

// Policy names what a line, panel or group of bars belongs to: from 1 to 12 in one chart,
// with distinct and short names; the caption gives Parameters in full. Colour, dashes and
// number go by the order, so charts of the same policies should have them in the same.
type Policy struct {
	Name       string
	Parameters string
}

// Band is one value for each place on the x axis: the mean over the seeds, and the
// 5 % and 95 % quantiles. Low and High are both empty where there was one seed.
type Band struct {
	Mean, Low, High []float64
}

// Estimate is one value for each place on the x axis with its standard error, drawn as
// bars of two standard errors each way. SE is empty where there was one seed.
type Estimate struct {
	Mean, SE []float64
}

// Dip shows what is left of the goodput after a server was slow for a while, and below
// it the load that caused this.
type Dip struct {
	Frame
	// Seconds is the x axis, ascending.
	Seconds []float64
	// From and To bound the trigger, in seconds; Trigger names it: "dip to 30 %".
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
	// Recovery is in seconds after the trigger; +Inf means that it never came.
	Recovery float64
}

// Failure shows how many calls a request turns into while calls fail with a given
// probability, and how many requests succeed. Calls have a log scale where they span
// more than a factor of ten, as through a chain of services.
type Failure struct {
	Frame
	// Probability is the x axis, ascending, each from 0 to 1.
	Probability []float64
	Lines       []FailureLine
}

// FailureLine is one policy in a [Failure].
type FailureLine struct {
	Policy
	// Calls is how many reach the server for each request.
	Calls Band
	// Success is in percent of the requests.
	Success Band
}

// Map shows for every load and every length of a dip, or size of a fleet, how long the
// recovery takes: one small map for each policy, with the user's own place marked.
type Map struct {
	Frame
	// Load is the x axis in percent of capacity, and Y the y axis, both ascending;
	// YLabel names Y with its unit: "dip, s".
	Load, Y []float64
	YLabel  string
	// Horizon is how many seconds each run waited for the recovery.
	Horizon float64
	// Mark is the user's own place; nil marks none.
	Mark *Mark
	Maps []PolicyMap
}

// PolicyMap is one policy in a [Map].
type PolicyMap struct {
	Policy
	// Recovery is in seconds, one row for each Y with one value for each Load; +Inf
	// means never within the horizon.
	Recovery [][]float64
}

// Mark is a place on a [Map]. It lies within the axes; between two of their values it
// is drawn between them.
type Mark struct {
	Load, Y float64
	// Label is what it is called; empty means "you".
	Label string
}

// Herd shows the arrivals at a server to which many clients come back at once: one
// panel for each strategy, all with the same y axis.
type Herd struct {
	Frame
	// Seconds are the starts of the bins of arrivals, ascending by equal steps.
	Seconds []float64
	// From and To bound the time in which the server is down, in seconds; both 0 if it
	// never is.
	From, To float64
	// Capacity is what the server can do in one bin.
	Capacity float64
	Panels   []HerdPanel
}

// HerdPanel is one strategy in a [Herd].
type HerdPanel struct {
	Policy
	// Arrivals is how many come in each bin.
	Arrivals Band
	// Peak is the most arrivals in any sliding window as long as a bin, over the whole
	// run, whether it is shown or not.
	Peak float64
	// Drain is when the last client is served, in seconds; +Inf means never.
	Drain float64
}

// OCC shows what optimistic locking costs many clients that contend for one row: calls,
// and below them the time until all are done, on a log scale.
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

// Layers shows how many calls one request of a user turns into at each hop of a chain,
// as bars on a log scale.
type Layers struct {
	Frame
	// Hops are the names of the hops, from the user on.
	Hops     []string
	Policies []LayersPolicy
}

// LayersPolicy is one policy in a [Layers].
type LayersPolicy struct {
	Policy
	// Calls for each request of a user, one value for each hop.
	Calls []float64
}

// Delays shows what a policy plans: the delay before each retry with the range of its
// jitter, and the time that has passed by then. Seeds means nothing here.
type Delays struct {
	Frame
	// Deadline is in seconds, drawn across the cumulative time; 0 means none.
	Deadline float64
	Lines    []DelaysLine
}

// DelaysLine is one policy in a [Delays]: the first value of each Band is for the first
// retry, and lines may differ in length. Low and High are the least and the most that
// the jitter allows, not quantiles.
type DelaysLine struct {
	Policy
	// Delay is in seconds.
	Delay Band
	// Elapsed is the sum of the delays so far, in seconds.
	Elapsed Band
}
