package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gobackoff/backoff"
)

func TestTheReplyArrives(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"attempt 1: ", "attempt 2: ", "reply: fine, thank you\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestTheLoopEndsByItself(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close() // so that connections are refused
	_, err = ask(t.Context(), listener.Addr().String(), io.Discard)
	gaveUp, ok := errors.AsType[*backoff.Error](err)
	if !ok || gaveUp.Attempts != 4 || !errors.Is(err, backoff.ErrExhausted) {
		t.Errorf("got %v, want exhaustion after 4 attempts", err)
	}
}

func TestNoAttemptAfterTheCallersEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	_, err := ask(ctx, "127.0.0.1:1", &out)
	if !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("got %v after %q", err, &out)
	}
}
