// Package sqltest tests package sqlstore on real databases. It is a module of its own, so
// that their drivers are no dependency of the library. SQLite needs no server; the tests on
// PostgreSQL and MariaDB are tagged integration (see compose.yaml).
package sqltest
