// Package backofftest helps to test what plugs into package backoff: a function for each
// of its interfaces says whether an implementation keeps the contract, and [Faulty] does
// to a fleet's store what networks do. It is for tests only, as it imports testing.
package backofftest
