// Package drilltest checks the result of a drill.
package drilltest

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/clients/internal/drill"
)

// Flows runs an example under its policy, which gets the longest waits, so that
// the number of attempts during an outage is known. It checks that every message
// came back, and that there were four connections: the first one, and one after
// each failure.
func Flows(t *testing.T, policy *backoff.Policy, run func(context.Context, io.Writer) (drill.Report, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	policy.Rand = func() float64 { return 0.999 }
	r, err := run(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if r.Received != drill.Messages {
		t.Errorf("%d messages came back, want %d", r.Received, drill.Messages)
	}
	if r.Connections != 4 {
		t.Errorf("%d connections, want 4", r.Connections)
	}
	waits(t, r, *policy)
}

// waits checks that the waits are those of the policy, and that they were
// waited. A slow machine adds to some of them, and a client with waits of its own to all.
// There is one wait after each cut, and five in the outage. After these the outage is over.
func waits(t *testing.T, r drill.Report, policy backoff.Policy) {
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
	added := time.Hour
	for i := 1; i < 5; i++ { // the waits in the outage
		last := r.Retries[i]
		slept := r.Retries[i+1].At.Sub(last.At)
		if slept < last.Wait {
			t.Errorf("waited %v, want %v", slept, last.Wait)
		}
		added = min(added, slept-last.Wait)
	}
	if added > 250*time.Millisecond {
		t.Errorf("every wait took %v more than the policy said", added)
	}
}
