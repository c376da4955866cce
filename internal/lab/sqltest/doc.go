// Package sqltest tests package backoffsql on real databases. Its tests are
// tagged integration (see compose.yaml).
package sqltest
