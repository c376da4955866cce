// Package plugtest holds the shapes of package plug, and of the root, against the real clients: at
// compile time in shapes_test.go, and by running them on loopback in the others. It
// exists so that an interface that changes breaks these tests and not a user.
package plugtest
