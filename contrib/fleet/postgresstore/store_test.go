package postgresstore

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStoreNeedsADatabase(t *testing.T) {
	_, err := New(nil)
	require.ErrorContains(t, err, "db is nil")
}

func TestNamesFitIntoTextAndStayDifferent(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"a", "a\x00", `a\0`, `a\`, `a\\`, "ключ", "a\xff"} {
		got := text(name)
		require.NotContains(t, got, "\x00")
		require.Empty(t, seen[got], "%q and %q are the same", name, seen[got])
		seen[got] = name
	}
}

func TestDurationsAreRoundedUpToMicroseconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{-time.Second: -1e6, 0: 0, 1: 1, time.Microsecond: 1, 1001: 2, math.MaxInt64: math.MaxInt64/1000 + 1} {
		require.Equal(t, want, interval(d).Microseconds, "%d", d)
	}
	require.Equal(t, 1500*time.Microsecond, duration(0.0015))
	require.Equal(t, time.Microsecond, duration(0.0000001))
	require.Zero(t, duration(0))
}

func TestNumbersFitIntoFourBytes(t *testing.T) {
	require.EqualValues(t, math.MaxInt32, small(math.MaxInt))
	require.EqualValues(t, math.MinInt32, small(math.MinInt))
	require.EqualValues(t, 7, small(7))
}

// Processes of several releases use one schema: a new release keeps these
// tables, and the functions that the processes call.
func TestTheSchemaIsPromised(t *testing.T) {
	comments := regexp.MustCompile(`(?m)--.*$`)
	heads := regexp.MustCompile(`create unlogged table[^;]*|create or replace function backoff_(load|trip|lease|reset|take|give)\([^$]*returns \w+`)
	space := regexp.MustCompile(`\s+`)
	var all []string
	for _, head := range heads.FindAllString(comments.ReplaceAllString(Schema, ""), -1) {
		all = append(all, space.ReplaceAllString(head, " "))
	}
	require.Equal(t, []string{
		"create unlogged table if not exists backoff_circuit ( key text primary key, generation bigint not null default 0, opened timestamptz, " +
			"openings int not null default 0, holder text, leased timestamptz, votes jsonb not null default '{}', forget timestamptz not null default '-infinity' )",
		"create unlogged table if not exists backoff_block ( key text not null, block text not null, tokens int not null, until timestamptz not null, " +
			"primary key (key, block) )",
		"create or replace function backoff_load(k text) returns record",
		"create or replace function backoff_trip(k text, by text, voter text, seen bigint, open interval, again int, quorum int, linger interval) returns record",
		"create or replace function backoff_lease(k text, by text, d interval, linger interval) returns record",
		"create or replace function backoff_reset(k text, by text, seen bigint, linger interval) returns record",
		"create or replace function backoff_take(k text, name text, n int, allowance int, span interval) returns int",
		"create or replace function backoff_give(k text, name text, n int) returns void",
	}, all)
	require.Equal(t, " as (generation bigint, tripped boolean, open float8, openings int, leased float8, mine boolean)", answer)
}
