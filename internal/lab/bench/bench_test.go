package bench

import (
	"context"
	"errors"
	"testing"
	"time"
)

var errDown = errors.New("down")

const (
	attempts = 4
	initial  = 100 * time.Millisecond
	limit    = 30 * time.Second
)

// calls counts the calls of operations without variables of their own. One goroutine writes it.
var calls int

// succeed is a plain function: it captures nothing.
func succeed(context.Context) error { calls++; return nil }

// start returns a context that can end, as those of real calls can, and begins to count.
func start(b *testing.B) context.Context {
	b.ReportAllocs()
	calls = 0
	return b.Context()
}

// expect fails the benchmark unless its operation was called so often in each iteration.
func expect(b *testing.B, got, each int) {
	b.Helper()
	if want := b.N * each; got != want {
		b.Fatalf("the operation was called %d times in %d iterations, want %d", got, b.N, want)
	}
}

// must fails the benchmark for an error.
func must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// mustNot fails the benchmark unless err is a failure.
func mustNot(b *testing.B, err error) {
	if err == nil {
		b.Helper()
		b.Fatal("no error")
	}
}
