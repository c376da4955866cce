// Package compare runs this library and others side by side, and compares them
// with what docs/comparison.md and docs/migrating say.
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
// Every block of Go in docs/migrating is compiled, and the behaviour it
// claims is tested on both sides.
package compare
