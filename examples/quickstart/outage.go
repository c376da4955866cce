package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/traffic"
)

const (
	callers   = 10
	perSecond = 5 // calls of each caller
	down      = 1 // the second after which the server goes down
	back      = 5 // the second after which it is back
	seconds   = 8 // of the picture
)

// A service is what is called, over base, and how to stop and restart it.
type service struct {
	base    http.RoundTripper
	url     string
	stop    func()
	restart func() error
}

// byHand is the loop that one finds everywhere: four attempts, and waits that
// double.
func byHand(ctx context.Context, op func(context.Context) error) error {
	wait := 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := op(ctx)
		if err == nil || attempt == 4 {
			return err
		}
		time.Sleep(wait)
		wait *= 2
	}
}

// outage makes the same calls with a loop by hand and with the default client,
// while the service goes down and comes back. It prints a picture of both, a
// line each second.
func outage(ctx context.Context, out io.Writer, s service) error {
	loop, library := newLoop(s), newLibrary(s)
	fmt.Fprintf(out, "Ten callers make %d calls a second in all, each of them twice: with a loop of\n", callers*perSecond)
	fmt.Fprintf(out, "4 attempts, and with backoffhttp.Client. What happens in each second:\n\n")
	fmt.Fprintln(out, heading)

	began := time.Now()
	until, cancel := context.WithDeadline(ctx, began.Add(sampled(seconds)))
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		traffic.Steady(until, callers*perSecond, func() {
			all.Go(func() { loop.make(ctx) })
			library.make(ctx)
		})
	})
	var before, sum row // what was counted before the service went down, and while it was
	for second := 1; second <= seconds; second++ {
		select {
		case <-time.After(time.Until(began.Add(sampled(second)))):
		case <-ctx.Done():
			return ctx.Err()
		}
		r := row{second, loop.since(), library.since()}
		fmt.Fprintln(out, r.line())
		switch second {
		case down:
			before = row{byHand: loop.seen, library: library.seen}
		case back:
			sum = row{byHand: loop.seen.minus(before.byHand), library: library.seen.minus(before.library)}
		}
		if err := s.turn(out, second, row{byHand: loop.seen, library: library.seen}); err != nil {
			return err
		}
	}
	all.Wait()
	_, err := fmt.Fprintf(out, "\n%s", sum.summary(row{byHand: loop.total(), library: library.total()}))
	return err
}

// turn stops and restarts the service at the end of a second. Until it goes down no
// call fails, and so those of the total failed while it was down.
func (s service) turn(out io.Writer, second int, total row) (err error) {
	switch second {
	case down:
		s.stop()
		_, err = fmt.Fprintln(out, "      the server goes down: it refuses connections")
	case back:
		_, err = fmt.Fprintf(out, "      the server is back; %d calls of the loop have failed, %d of the client\n",
			total.byHand.failures, total.library.failures)
		err = errors.Join(err, s.restart())
	}
	return err
}

// sampled is when the picture looks, between two calls.
func sampled(second int) time.Duration {
	return time.Duration(second)*time.Second + time.Second/(2*callers*perSecond)
}

// A lane is one way to make calls. It counts what becomes of them.
type lane struct {
	call func(context.Context) error
	base http.RoundTripper

	calls, ended, attempts, successes, failures atomic.Int64

	seen counts
}

// newLoop returns the lane of the loop by hand.
func newLoop(s service) *lane {
	l := &lane{base: s.base}
	client := &http.Client{Transport: l}
	l.call = func(ctx context.Context) error {
		return byHand(ctx, func(ctx context.Context) error { return traffic.Get(ctx, client, s.url) })
	}
	return l
}

// newLibrary returns the lane of the client that backoffhttp.Client makes.
func newLibrary(s service) *lane {
	l := &lane{base: s.base}
	client := backoffhttp.WrapClient(&http.Client{Transport: l}, backoff.Policy{Name: "get"})
	l.call = func(ctx context.Context) error { return traffic.Get(ctx, client, s.url) }
	return l
}

// RoundTrip implements [http.RoundTripper]. It counts an attempt.
func (l *lane) RoundTrip(req *http.Request) (*http.Response, error) {
	l.attempts.Add(1)
	return l.base.RoundTrip(req)
}

func (l *lane) make(ctx context.Context) {
	l.calls.Add(1)
	defer l.ended.Add(1)
	if l.call(ctx) == nil {
		l.successes.Add(1)
	} else {
		l.failures.Add(1)
	}
}

// total returns what was counted.
func (l *lane) total() counts {
	calls := int(l.calls.Load())
	return counts{
		calls:     calls,
		waiting:   calls - int(l.ended.Load()),
		attempts:  int(l.attempts.Load()),
		successes: int(l.successes.Load()),
		failures:  int(l.failures.Load()),
	}
}

// since returns what was counted since it was called before.
func (l *lane) since() counts {
	before := l.seen
	l.seen = l.total()
	return l.seen.minus(before)
}

// counts are the calls and attempts of a lane. Those that wait have not ended.
type counts struct{ calls, waiting, attempts, successes, failures int }

// minus returns what was counted since o. The calls that wait are those that wait now.
func (c counts) minus(o counts) counts {
	return counts{c.calls - o.calls, c.waiting, c.attempts - o.attempts, c.successes - o.successes, c.failures - o.failures}
}
