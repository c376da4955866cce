// Package failing has a test that fails, for the tests of command mutants.
package failing

// Two says one.
func Two() int { return 1 }
