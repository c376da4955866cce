// Package bench compares the library with minimal code written by hand for the
// same work, and with other libraries.
//
// A benchmark is named Benchmark<Scenario>/<candidate>, or with a variant between
// the two. The candidate minimal is the floor, backoff is this library, and the
// others are peers. Every one of them counts the calls that its operation got, and
// fails if these are not exactly those that the scenario asks for. Where there is no
// operation, as for budgets and delays, it checks what came of it.
//
// Peers are used as fast as they allow: what may be shared by calls is made
// before the loop, and what is made anew for each call is what they keep state in.
// Where a peer takes the context at construction only, the candidate with the
// suffix -ctx makes one per call, as a caller with a context per call must; the
// one without shares one context among all calls.
//
// Package ratios turns the output into tables, and into docs/benchmarks.md with the words of its
// notes.md. Package size weighs programs.
package bench
