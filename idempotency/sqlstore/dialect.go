package sqlstore

import (
	"fmt"
	"strconv"
	"strings"
)

// A Dialect is a kind of database.
type Dialect uint8

const (
	// PostgreSQL, from version 9.5 on, and compatible databases.
	PostgreSQL Dialect = iota + 1
	// MariaDB, and MySQL from version 5.7 on, with InnoDB.
	MariaDB
	// SQLite, from version 3.24 on.
	SQLite
)

// String returns the name of the database.
func (d Dialect) String() string {
	if d.valid() {
		return d.terms().name
	}
	return "invalid"
}

// valid reports whether d is one of the constants.
func (d Dialect) valid() bool { return d >= PostgreSQL && d <= SQLite }

// terms are the parts of statements in which the dialects differ.
type terms struct {
	name   string
	now    string // milliseconds since 1970, by the clock of the database
	insert string // the beginning of an INSERT that does nothing if the key exists
	ignore string // the end of that INSERT
	skip   string // the end of a SELECT that locks what it finds, except what is locked
	bytes  string // the type of a body
	table  string // the end of a CREATE TABLE
}

// terms returns the terms of the dialect.
func (d Dialect) terms() terms {
	return [...]terms{
		PostgreSQL: {
			name:   "PostgreSQL",
			now:    "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
			insert: "INSERT",
			ignore: " ON CONFLICT DO NOTHING",
			skip:   " FOR UPDATE SKIP LOCKED",
			bytes:  "BYTEA",
		},
		MariaDB: {
			name:   "MariaDB",
			now:    "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)",
			insert: "INSERT IGNORE", // ON DUPLICATE KEY counts the row under clientFoundRows
			bytes:  "LONGBLOB",
			table:  " ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin",
		},
		SQLite: {
			name:   "SQLite",
			now:    "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
			insert: "INSERT",
			ignore: " ON CONFLICT DO NOTHING",
			bytes:  "BLOB",
		},
	}[d]
}

// bind returns a statement in the dialect. In statement a name in braces stands
// for a term, and ? for a placeholder.
func (d Dialect) bind(table, statement string) string {
	t := d.terms()
	statement = strings.NewReplacer("{now}", t.now, "{insert}", t.insert, "{ignore}", t.ignore, "{skip}", t.skip,
		"{bytes}", t.bytes, "{end}", t.table, "{table}", table).Replace(statement)
	if d != PostgreSQL {
		return statement
	}
	parts := strings.Split(statement, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// Schema returns the statements that create the table, for a migration.
// [Store.Create] executes the same statements.
func (d Dialect) Schema(table string) ([]string, error) {
	if err := check(d, table); err != nil {
		return nil, err
	}
	index := strings.ReplaceAll(table, ".", "_") + "_expires"
	statements := []string{`CREATE TABLE IF NOT EXISTS {table} (
	id          CHAR(64) NOT NULL PRIMARY KEY,
	fingerprint CHAR(64) NOT NULL,
	token       CHAR(26) NOT NULL,
	run         INTEGER NOT NULL,
	version     INTEGER NOT NULL,
	done        INTEGER NOT NULL,
	lease       BIGINT NOT NULL,
	expires     BIGINT NOT NULL,
	status      INTEGER NOT NULL,
	omitted     INTEGER NOT NULL,
	header      {bytes},
	body        {bytes}{index}
){end}`}
	inline := ""
	if d == MariaDB { // MySQL has no CREATE INDEX IF NOT EXISTS
		inline = ",\n\tINDEX " + index + " (expires)"
	} else {
		statements = append(statements, "CREATE INDEX IF NOT EXISTS "+index+" ON {table} (expires)")
	}
	for i, s := range statements {
		statements[i] = d.bind(table, strings.ReplaceAll(s, "{index}", inline))
	}
	return statements, nil
}

// check returns an error for an invalid dialect or table. The name of a table
// becomes part of the statements, because it cannot be a parameter.
func check(d Dialect, table string) error {
	if !d.valid() {
		return fmt.Errorf("sqlstore: dialect %d, want PostgreSQL, MariaDB or SQLite", d)
	}
	for part := range strings.SplitSeq(table, ".") {
		if part == "" || len(part) > 48 || strings.Trim(part, letters+digits) != "" || strings.ContainsAny(part[:1], digits) {
			return fmt.Errorf("sqlstore: table %q, want letters, digits and underscores", table)
		}
	}
	return nil
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	digits  = "0123456789"
)
