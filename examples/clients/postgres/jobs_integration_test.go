//go:build integration

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// statement returns a constant of the recipe of a job table.
func statement(t *testing.T, name string) string {
	source, err := os.ReadFile("../../recipes/jobs.go")
	must(t, err)
	found := regexp.MustCompile(name + " += `([^`]+)`").FindSubmatch(source)
	if found == nil {
		t.Fatal("no statement ", name)
	}
	return string(found[1])
}

// connect returns a connection to a schema of the test.
func connect(t *testing.T, schema string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), url(server))
	must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), "SET search_path = "+schema)
	must(t, err)
	return conn
}

// due are the columns that a worker reads.
type due struct {
	ID, Host, Body string
	Failures       int
	Due            time.Time
	Error          string
	Created        time.Time
}

func claim(t *testing.T, conn *pgx.Conn) (due, bool) {
	rows, err := conn.Query(t.Context(), statement(t, "claimRow"))
	must(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[due])
	must(t, err)
	if len(all) == 0 {
		return due{}, false
	}
	return all[0], true
}

// create makes the tables in a schema of the test, with rows of one host.
func create(t *testing.T, schema string, rows int) *pgx.Conn {
	conn := connect(t, schema)
	for _, sql := range []string{
		"DROP SCHEMA IF EXISTS " + schema + " CASCADE", "CREATE SCHEMA " + schema, statement(t, "createTables"),
		fmt.Sprintf("INSERT INTO deliveries (id, host, body) SELECT n, 'host', '' FROM generate_series(1, %d) n", rows),
	} {
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE") })
	return conn
}

// A shorter hold does not end a longer one.
func TestNoRowOfAHostThatIsHeldIsClaimed(t *testing.T) {
	conn := create(t, "backoff_holds", 1)
	for _, after := range []time.Duration{time.Hour, -time.Minute} {
		_, err := conn.Exec(t.Context(), statement(t, "holdHost"), "host", time.Now().Add(after))
		must(t, err)
		if d, ok := claim(t, conn); ok {
			t.Errorf("after a hold of %v: %+v", after, d)
		}
	}
	_, err := conn.Exec(t.Context(), "UPDATE holds SET until = now()")
	must(t, err)
	if d, ok := claim(t, conn); !ok || d.Failures != 0 || d.Error != "" || time.Since(d.Created) > time.Hour {
		t.Errorf("after the hold: %v, %+v", ok, d)
	}
}

// Row 1 is claimed, row 2 waits for an hour, row 3 was given up, and row 4 is of another host.
func TestTheRowsOfAHostThatIsBackAreDueButForThoseThatAreClaimed(t *testing.T) {
	conn := create(t, "backoff_free", 4)
	for _, sql := range []string{
		"UPDATE deliveries SET due = now() + interval '1 hour' WHERE id <> '1'",
		"UPDATE deliveries SET error = 'gone' WHERE id = '3'",
		"UPDATE deliveries SET host = 'other' WHERE id = '4'",
	} {
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	if d, ok := claim(t, conn); !ok || d.ID != "1" {
		t.Fatalf("%v, %+v", ok, d)
	}
	_, err := conn.Exec(t.Context(), statement(t, "freeHost"), "host")
	must(t, err)
	if d, ok := claim(t, conn); !ok || d.ID != "2" {
		t.Errorf("after the host was free: %v, %+v", ok, d)
	}
	if d, ok := claim(t, conn); ok {
		t.Errorf("claimed twice, given up, or of another host: %+v", d)
	}
}

func TestEachRowIsClaimedByOneWorkerAndSavedOnlyByIt(t *testing.T) {
	const schema, rows, workers = "backoff_jobs", 40, 4
	first := create(t, schema, rows)
	var mu sync.Mutex
	claimed := make(map[string]due)
	var all sync.WaitGroup
	for range workers {
		conn := connect(t, schema)
		all.Go(func() {
			for {
				d, ok := claim(t, conn)
				if !ok {
					return
				}
				mu.Lock()
				_, twice := claimed[d.ID]
				claimed[d.ID] = d
				mu.Unlock()
				if twice {
					t.Errorf("row %s was claimed twice", d.ID)
				}
			}
		})
	}
	all.Wait()
	if len(claimed) != rows {
		t.Fatalf("%d rows were claimed, want %d", len(claimed), rows)
	}

	save := func(d due) int64 {
		tag, err := first.Exec(t.Context(), statement(t, "saveRow"), d.ID, d.Due, d.Failures+1, d.Due.Add(-time.Hour), "")
		must(t, err)
		return tag.RowsAffected()
	}
	remove := func(d due) int64 {
		tag, err := first.Exec(t.Context(), statement(t, "removeRow"), d.ID, d.Due)
		must(t, err)
		return tag.RowsAffected()
	}
	if n := save(claimed["1"]); n != 1 {
		t.Errorf("%d rows were saved, want 1", n)
	}
	if n := save(claimed["1"]); n != 0 {
		t.Errorf("a claim that had ended saved %d rows", n)
	}
	if again, _ := claim(t, first); again.ID != "1" || again.Failures != 1 { // no other row is due
		t.Errorf("%+v was claimed, want row 1 after a failure", again)
	} else if n := remove(claimed["1"]); n != 0 {
		t.Errorf("a claim that had ended removed %d rows", n)
	} else if n := remove(again); n != 1 {
		t.Errorf("%d rows were removed, want 1", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
