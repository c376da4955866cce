// Package bench compares the library with code written by hand for the same work, and with other
// libraries, the peers.
//
// A benchmark is named Benchmark<Scenario>/<candidate>. The candidate minimal is the code written
// by hand, backoff is this library, and a suffix is a variant of either. Every candidate counts the
// calls of its operation, and fails if their number is not the one that the scenario requires.
//
// A peer is a row of a table: a name, and a func that prepares a call. What calls can share is
// prepared once, the operation included. A peer is called through that func, which takes 1 to 2
// ns; minimal and backoff are called directly. If a peer takes the context only when it is
// constructed, the row with the suffix -ctx constructs one for each call, as a caller with a
// context for each call must.
//
// TestSpeed holds the bars. Package size measures the size of programs.
package bench
