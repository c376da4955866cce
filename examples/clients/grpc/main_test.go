package main

import (
	"context"
	"testing"
	"time"
)

func TestEveryCallSucceeds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	calls, err := run(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if calls != 11 {
		t.Errorf("the server got %d calls, want 11: 6, and one more for each of the 5 that failed", calls)
	}
}
