package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
	"github.com/gobackoff/backoff/poll"
)

func TestTheJobIsDone(t *testing.T) {
	began := time.Now()
	const want = `look 1: pending, 20 %
look 2 failed: status 503 Service Unavailable
look 3: pending, 40 %
the server asks for a wait of 1s
look 4: pending, 80 %
look 5: done, 100 %
result: 12,345 rows
`
	journaltest.Prints(t, run, want)
	if took := time.Since(began); took < time.Second {
		t.Errorf("took %v, though the server asked for a second", took)
	}
}

func TestAJobThatFailsEndsThePoll(t *testing.T) {
	if _, looks, err := waitFor(t, pending(20), failed); !errors.Is(err, errFailed) || looks != 2 {
		t.Errorf("got %v after %d looks", err, looks)
	}
}

func TestAServerThatStaysDownEndsThePoll(t *testing.T) {
	j, looks, err := waitFor(t, pending(20), failing)
	if !errors.Is(err, backoff.ErrExhausted) || errors.Is(err, poll.ErrNotYet) || looks != 5 {
		t.Errorf("got %v after %d looks", err, looks)
	}
	if j.Percent != 20 || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v and %v", j, err)
	}
}

func TestAJobThatTakesTooLongTellsHowFarItIs(t *testing.T) {
	patient := policy
	defer func() { policy = patient }()
	policy.MaxElapsed = 120 * time.Millisecond
	j, _, err := waitFor(t, pending(20), pending(40))
	if !errors.Is(err, poll.ErrNotYet) || j.Percent != 40 {
		t.Errorf("got %v and %v", j, err)
	}
}

func waitFor(t *testing.T, answers ...faulty.Step) (j job, looks int, err error) {
	server := faulty.Start(answers...)
	defer server.Close()
	j, err = wait(t.Context(), server.URL, journal.New(io.Discard))
	return j, server.Requests(), err
}
