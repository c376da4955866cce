// Package sqlstoretest tests package sqlstore on real databases: those on PostgreSQL and MariaDB
// are tagged integration (see compose.yaml), and those of SQLite, which takes a minute to build,
// nightly.
package sqlstoretest
