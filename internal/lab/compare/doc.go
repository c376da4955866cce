// Package compare runs this library and others side by side, and holds them to what
// docs/comparison.md and docs/migrating.md say.
//
// A row of the comparison is a question about behaviour, put to every library by a
// small function that returns what it saw. The table in the document is what they
// returned; where a library answers differently from what is written there, or a row has
// no question any more, a test fails. To run one row, and to write the tables anew after a peer
// has changed:
//
//	go test -C internal/lab -run TestComparison/deadline ./compare
//	go test -C internal/lab -run TestComparison ./compare -update
//
// Every block of Go in docs/migrating.md is compiled, and the behaviour it claims is
// tested on both sides.
package compare
