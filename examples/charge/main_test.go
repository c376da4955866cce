package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

func TestNoChargeIsLostAndNoneIsDoubled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // it takes 2 s, and many times that under -race
	defer cancel()
	r, err := charge(ctx, transport(backoff.Keyed), true, orders)
	if err != nil {
		t.Fatal(err)
	}
	if r.orders != 10000 || r.confirmed != 10000 || r.once != 10000 || r.lost != 0 || r.double != 0 || r.unanswered != 0 {
		t.Error(r)
	}
	if share := float64(r.dropped) / float64(r.requests); share < 0.18 || share > 0.22 {
		t.Errorf("%.3f of the answers were dropped", share)
	}
}

func TestThreeWaysArePrinted(t *testing.T) {
	journaltest.Has(t, func(ctx context.Context, out io.Writer) error { return run(ctx, out, 500) },
		`not sent again \(the default\) +500 +\d+ +\d+ +[1-9]\d* +0 +0`,
		`sent again +\d+ +\d+ +500 +0 +0 +[1-9]\d*`,
		`sent again under a key +\d+ +\d+ +500 +0 +0 +0`)
}
