// Package sqlstoretest tests package sqlstore on real databases. SQLite needs
// no server; the tests on PostgreSQL and MariaDB are tagged integration (see
// compose.yaml).
package sqlstoretest
