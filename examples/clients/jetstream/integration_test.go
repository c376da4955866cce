//go:build integration

package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

const want = `attempt 1 of 4 failed: context deadline exceeded (retryable); again in TIME
order 1 is stored; was stored before: true
attempt 2 of 4 succeeded
order 2 is stored; was stored before: false
attempt 1 of 4 succeeded
order 3 is stored; was stored before: false
attempt 1 of 4 succeeded
the stream has 3 messages
delivery 1 of order 1: done
delivery 1 of order 2: the warehouse does not answer; again in TIME
delivery 1 of order 3: no such article; not again
delivery 2 of order 2: the warehouse does not answer; again in TIME
delivery 3 of order 2: done
in all: 4 attempts in TIME, with waits of TIME
`

func TestNoOrderIsStoredTwiceAndNoneIsDeliveredForEver(t *testing.T) {
	journaltest.Prints(t, run, want)
}

// The warehouse is down for five seconds, in which each order is delivered several
// times. One order fails whenever it comes.
func TestAnOutageEndsNoGoodOrder(t *testing.T) {
	conn, err := nats.Connect(server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	name := "example-" + rand.Text()[:8]
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	defer js.DeleteStream(t.Context(), name)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // orders keep coming
		for n := 0; n < 200; n++ {
			js.PublishAsync(name, fmt.Append(nil, n))
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	down, up := time.Now().Add(time.Second), time.Now().Add(6*time.Second)
	done, ended := 0, 0
	r := &receiver{log: journal.New(t.Output()), alone: map[string]int{}}
	r.handle = func(order string, _ int) error {
		now := time.Now()
		if order == "7" || now.After(down) && now.Before(up) {
			return errors.New("the warehouse does not answer")
		}
		done++
		return nil
	}
	if err := consume(t.Context(), r, stream, 200); err != nil {
		t.Fatal(err)
	}
	if ended = 200 - done; ended != 1 {
		t.Errorf("%d orders were ended, want the one that always fails", ended)
	}
}
