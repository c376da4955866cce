package sim

import "errors"

// Compare runs each client in the scenario, once for every seed, and returns their results in
// the order of the clients. All clients of a seed meet the same arrivals.
//
// A process simulates one thing at a time: a second call waits for the first.
func Compare(s Scenario, clients []Client, o Options) ([]Result, error) {
	return nil, errors.New("not yet")
}

// FindCliff looks between lo and hi for the point at which a client stops to recover in all seeds,
// by bisection, until the two are within tolerance.
func FindCliff(s Scenario, c Client, axis CliffAxis, lo, hi, tolerance float64, o Options) (Cliff, error) {
	return Cliff{}, errors.New("not yet")
}

// Check returns what of a result is beyond the gates, a line each.
func (g Gates) Check(r Result) []string { return nil }

// Verdict says in a line what became of a client.
func Verdict(s Scenario, r Result) string { return "" }

// Warnings returns what can be told of a client in a scenario without running it, a line
// each.
func Warnings(s Scenario, c Client) []string { return nil }

// Dip, Chain and Herd are the models of the reference; RunOCC is the fourth.
func Dip() Scenario { return Scenario{} }

// Chain is three layers before a service that fails with the probability p.
func Chain(p float64) Scenario { return Scenario{} }

// Herd is one of the six variants "A1" to "A6".
func Herd(variant string) (Scenario, error) { return Scenario{}, nil }

// Validate names the field that is out of its range.
func (s Scenario) Validate() error { return nil }

// References returns the clients of the reference tables for a model, "dip", "chain" or
// "herd", by name; "none", "naive" and "default" are among them.
func References(model string) []Client { return nil }
