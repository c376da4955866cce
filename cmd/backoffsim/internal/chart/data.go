package chart

// A Chart is one picture: a [Dip], [Failure] or [Herd].
type Chart interface {
	layOut() *figure
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
	// Seed is the first seed, and Seeds is how many were run.
	Seed  uint64
	Seeds int
	// Version is the version of the program. Empty leaves it out.
	Version string
}

// Policy names the policy of a line or panel. A chart has from 1
// to [MaxLines] policies, with distinct short names. The caption gives the
// Parameters in full. The order decides about colours and dashes.
type Policy struct {
	Name       string
	Parameters string
}

// Band has a value for each point of the x axis, from 0: the mean over the
// seeds, and a range around it. Low and High are empty if there was one seed.
type Band struct {
	Mean, Low, High []float64
}

// Line is one policy in two plots, one above the other.
type Line struct {
	Policy
	First, Second Band
	// Recovery is in seconds after the fault. +Inf means never.
	Recovery float64
}

// Dip shows the goodput while and after a server is slow for a while, in percent
// of the offered requests, and below it the load on the server, as a multiple
// of its capacity. Bands are the 5 % and 95 % quantiles.
type Dip struct {
	Frame
	// Seconds is the x axis, ascending.
	Seconds []float64
	// From and To bound the fault, in seconds. Trigger describes the fault.
	From, To float64
	Trigger  string
	Lines    []Line
}

// Failure shows how many calls a request causes when calls fail with a given
// probability, and how many percent of the requests succeed. The calls have a
// logarithmic scale if they span more than a factor of ten, as in a chain of
// services.
type Failure struct {
	Frame
	// Probability is the x axis, with ascending values from 0 to 1.
	Probability []float64
	Lines       []Line
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
	Arrivals []float64
	// Peak is the most arrivals in any window as long as a bin, over the whole
	// run, including the part that is not shown.
	Peak float64
	// Drain is when the last client is served, in seconds. +Inf means never.
	Drain float64
}
