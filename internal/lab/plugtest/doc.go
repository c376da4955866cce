// Package plugtest checks that package plug and the root fit the real clients:
// at compile time in shapes_test.go, and by running the clients on loopback in
// the other files. When a client changes its interface, these tests break
// before a user's program does.
//
// The clients take minutes to build, and so make nightly does that.
package plugtest
