// Package sqltest tests package backoffsql on real databases. It is a module of its own, so that their drivers
// are no dependency of the library. Its tests are tagged integration (see compose.yaml).
package sqltest
