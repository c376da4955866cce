// Package sqltest tests package backoffsql and the module contrib/backoffpgx on
// real databases. Its tests are tagged integration (see compose.yaml), and those of SQLite,
// which takes a minute to build, nightly.
package sqltest
