package main

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/poll"
)

func TestTheJobIsDone(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `look 1: pending, 20 %
look 2 failed: status 503 Service Unavailable
look 3: pending, 40 %
the server asks for a wait of 1s
look 4: pending, 80 %
look 5: done, 100 %
result: 12,345 rows
`
	if got := journal.Normal(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("took %v, though the server asked for a second", took)
	}
}

func TestAJobThatFailsEndsThePoll(t *testing.T) {
	server := &jobs{answers: []answer{pending(20), failed}}
	if _, err := waitFor(t, server); !errors.Is(err, errFailed) || server.looks != 2 {
		t.Errorf("got %v after %d looks", err, server.looks)
	}
}

func TestAServerThatStaysDownEndsThePoll(t *testing.T) {
	server := &jobs{answers: []answer{pending(20), failing}}
	j, err := waitFor(t, server)
	if !errors.Is(err, backoff.ErrExhausted) || errors.Is(err, poll.ErrNotYet) || server.looks != 5 {
		t.Errorf("got %v after %d looks", err, server.looks)
	}
	if j.Percent != 20 || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v and %v", j, err)
	}
}

func TestAJobThatTakesTooLongTellsHowFarItIs(t *testing.T) {
	patient := policy
	defer func() { policy = patient }()
	policy.MaxElapsed = 120 * time.Millisecond
	j, err := waitFor(t, &jobs{answers: []answer{pending(20), pending(40)}})
	if !errors.Is(err, poll.ErrNotYet) || j.Percent != 40 {
		t.Errorf("got %v and %v", j, err)
	}
}

func waitFor(t *testing.T, server *jobs) (job, error) {
	listening := httptest.NewServer(server)
	defer listening.Close()
	return wait(t.Context(), listening.URL, journal.New(io.Discard))
}
