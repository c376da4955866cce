// Package drilltest checks what became of a drill.
package drilltest

import (
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/clients/internal/drill"
)

// Longest is for policies in tests: it draws the longest waits, so that the
// number of attempts within an outage is known.
func Longest() float64 { return 0.999 }

// Connections checks that every message came back, over four connections: the
// first, and one after each of the three failures.
func Connections(t *testing.T, r drill.Report) {
	t.Helper()
	if r.Received != drill.Messages {
		t.Errorf("%d messages came back, want %d", r.Received, drill.Messages)
	}
	if r.Connections != 4 {
		t.Errorf("%d connections, want 4", r.Connections)
	}
}

// Waits checks that the waits were those of the policy under [Longest], and
// were waited: one after each cut, five in the outage, by when the schedule has
// grown beyond what is left of it.
func Waits(t *testing.T, r drill.Report, policy backoff.Policy) {
	t.Helper()
	attempts := []int{1, 1, 2, 3, 4, 5, 1}
	if len(r.Retries) != len(attempts) {
		t.Fatalf("waited %d times, want %d: %+v", len(r.Retries), len(attempts), r.Retries)
	}
	for i, retry := range r.Retries {
		delay := policy.Schedule.Delay(attempts[i])
		if retry.Attempt != attempts[i] || retry.Wait > delay || retry.Wait < delay*99/100 {
			t.Errorf("wait %d: attempt %d, %v; want attempt %d, %v", i+1, retry.Attempt, retry.Wait, attempts[i], delay)
		}
	}
	for i := 1; i < 5; i++ { // those that ended in a refusal
		last := r.Retries[i]
		slept := r.Retries[i+1].At.Sub(last.At)
		if slept < last.Wait || slept > last.Wait+250*time.Millisecond {
			t.Errorf("waited %v, want %v and a moment for the dial", slept, last.Wait)
		}
	}
}
