// Package sqltest tests package backoffsql and the module contrib/backoffpgx on
// real databases. Its tests are tagged integration (see compose.yaml), except those
// of SQLite.
package sqltest
