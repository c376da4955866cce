// Package compare runs this library and others side by side, and compares them
// with what docs/results/comparison.md and docs/migrating.md say.
//
// A row of the comparison is a question about behaviour. A small function per
// library asks it and returns what it saw, and the table in the document holds
// what the functions returned. A test fails if a library answers differently
// from the document, or if the document has a row without a question. To run
// one row, and to write the tables again after a peer has changed:
//
//	go test -C internal/lab -run TestComparison/deadline ./compare
//	go test -C internal/lab -run TestComparison ./compare -update
//
// What the tests of four of the others promise of retries, budgets and clients
// is put to this library as well (promises_test.go). TestPromisesOfOtherLibraries
// holds all of it in virtual time. Another test reads their test files, as
// they are in the module cache, and fails if one of their tests has neither a
// promise here nor a reason in testdata/left_out.txt. Where this library does
// something else, the promise says so, and -update writes it into the document:
//
//	go test -C internal/lab -run 'Promises|EveryTestOf|Differences' ./compare
//
// Every block of Go in docs/migrating.md and its pages is compiled, and the behaviour it
// claims is tested on both sides.
package compare
