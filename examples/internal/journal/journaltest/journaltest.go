// Package journaltest checks what an example prints.
package journaltest

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

// Prints runs an example, and checks that it prints what is wanted, without the
// times and ports that differ from run to run.
func Prints(t *testing.T, run func(context.Context, io.Writer) error, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, &out); err != nil {
		t.Fatal(err)
	}
	if got := journal.Normal(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Has runs an example, and checks that it prints a line like each of the
// patterns.
func Has(t *testing.T, run func(context.Context, io.Writer) error, lines ...string) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, line := range lines {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(out.Bytes()) {
			t.Errorf("no line like %s in\n%s", line, &out)
		}
	}
}
