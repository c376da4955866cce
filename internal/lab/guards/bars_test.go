package guards

import "fmt"

// A bar is what a figure of a client must reach in a world.
type bar struct {
	client, figure string
	atMost         bool // the figure must be no more than the limit, and not no less
	// The limit is plus, and times another figure if there is one.
	plus, times   float64
	other, beside string // a client, and its figure
}

// results are the figures of each client in a world.
type results map[string]figures

// limit returns what the bar asks for.
func (b bar) limit(r results) float64 {
	if b.other == "" {
		return b.plus
	}
	return b.plus + b.times*r[b.other][b.beside]
}

// check returns an error if the bar is missed.
func (b bar) check(r results) error {
	got, limit, want := r[b.client][b.figure], b.limit(r), "at least"
	missed := got < limit-1e-9
	if b.atMost {
		missed, want = got > limit+1e-9 || got < 0, "at most"
	}
	if !missed {
		return nil
	}
	return fmt.Errorf("%s: %s is %.4g, want %s %.4g", b.client, b.figure, got, want, limit)
}

// known reports whether the clients that the bar is about have run.
func (b bar) known(r results) bool {
	for _, c := range b.needs() {
		if r[c] == nil {
			return false
		}
	}
	return true
}

// needs returns the clients that the bar is about.
func (b bar) needs() []string {
	if b.other == "" {
		return []string{b.client}
	}
	return []string{b.client, b.other}
}

// The bars of several groups.

// within wants as many successes as another client has, but for some points.
func within(client string, points float64, other string) bar {
	return bar{client: client, figure: success, plus: -points, times: 1, other: other, beside: success}
}

// possible wants as many successes as could be, but for some points.
func possible(client string, points float64) bar {
	return bar{client: client, figure: success, plus: -points, times: 1, other: client, beside: could}
}

// keeps wants no fewer successes than the default client had when the bars were
// set, but for some points.
func keeps(was, points float64) bar { return atLeast(ours, success, was-points) }

func atLeast(client, figure string, limit float64) bar {
	return bar{client: client, figure: figure, plus: limit}
}

func atMost(client, figure string, limit float64) bar {
	return bar{client: client, figure: figure, plus: limit, atMost: true}
}
