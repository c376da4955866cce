package main

import (
	"errors"
	"net"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

const want = `attempt 1 of 4 failed: read tcp HOST->HOST: i/o timeout (retryable); again in TIME
attempt 2 of 4 failed: read tcp HOST->HOST: read: connection reset by peer (retryable); again in TIME
attempt 3 of 4 succeeded
reply: "fine, thank you\n"
in all: 3 attempts in TIME, with waits of TIME
`

func TestTheReplyArrives(t *testing.T) {
	journaltest.Prints(t, run, want)
}

func TestTheLoopEndsByItself(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close() // so that connections are refused
	_, err = ask(t.Context(), policy, listener.Addr().String())
	gaveUp, ok := errors.AsType[*backoff.Error](err)
	if !ok || gaveUp.Attempts != 4 || !errors.Is(err, backoff.ErrExhausted) {
		t.Errorf("got %v, want exhaustion after 4 attempts", err)
	}
}
