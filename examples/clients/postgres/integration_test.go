//go:build integration

package main

import (
	"context"
	"testing"
	"time"
)

func TestEveryTransferIsMadeOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it takes a second, but not on a busy machine
	defer cancel()
	r, err := run(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if r.Transfers != 5 || r.Balances != [2]int{50, 150} {
		t.Errorf("%+v, want 5 transfers of 10", r)
	}
	if r.Retries < 4 {
		t.Errorf("%d retries, want one for each thing that happened", r.Retries)
	}
}
