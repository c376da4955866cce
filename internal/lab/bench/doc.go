// Package bench compares the library with minimal code written by hand for the
// same work, and with other libraries.
//
// A benchmark is named Benchmark<Scenario>/<candidate>, or with a variant
// between the two. The candidate minimal is the floor, backoff is this library,
// and the others are peers. Every candidate counts the calls of its operation,
// and fails if their number is not the one that the scenario requires. Where
// there is no operation, as for budgets and delays, the candidate checks its
// results.
//
// Peers are used in their fastest way: the loop makes only what keeps the state
// of a call, and shares the rest among calls. If a peer takes the context only
// when it is constructed, the candidate with the suffix -ctx constructs one per
// call, as a caller with a context per call must; the candidate without the
// suffix shares one context among all calls.
//
// Package ratios turns the output into tables, and with the text of its
// notes.md into docs/benchmarks.md. Package size measures the size of programs.
// Package guard fails if a call costs half as much again, in processor time and
// as a multiple of the floor, as at the last release: make speed.
package bench
