package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// address is the one name by which all clients know the service.
const address = "http://service.test/"

// A fleet makes the calls of a run, and counts what becomes of them.
type fleet struct {
	setup
	begin time.Time
	calls []call // of each process
	fleetCounts
}

// A call is one call of a user, with all its attempts.
type call func(context.Context) error

// fleetCounts are what a fleet says of a run. Each slice has an element for each
// second. As in the simulator, a call counts as good or lost when it ends, and
// an attempt when it is sent.
type fleetCounts struct {
	Calls, Good, Lost, Attempts []count
	LatestCall                  count // microseconds after the call should have begun
}

func newFleet(o order) *fleet {
	f := &fleet{setup: o.Setup, begin: o.Begin}
	n := int((o.Setup.Horizon + time.Second - 1) / time.Second)
	for _, counts := range []*[]count{&f.Calls, &f.Good, &f.Lost, &f.Attempts} {
		*counts = make([]count, n)
	}
	for range o.Setup.Processes {
		base := &counted{Transport: &http.Transport{DialContext: spread(o.Addresses), MaxIdleConnsPerHost: 1000}, fleet: f}
		f.calls = append(f.calls, clientNamed(o.Client).calls(base, o.Setup))
	}
	return f
}

// spread returns a dialler that takes each address in turn, whatever the name.
// So one service can have more connections than one of its ports allows.
func spread(addresses []string) func(context.Context, string, string) (net.Conn, error) {
	var dialer net.Dialer
	var next atomic.Uint64
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, addresses[next.Add(1)%uint64(len(addresses))])
	}
}

// counted is a transport that counts attempts.
type counted struct {
	*http.Transport
	fleet *fleet
}

// RoundTrip implements [http.RoundTripper].
func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	c.fleet.count(c.fleet.Attempts, c.fleet.now())
	return c.Transport.RoundTrip(req)
}

// now returns the time since the run began.
func (f *fleet) now() time.Duration { return time.Since(f.begin) }

// count counts something that happened at a time, if the run was not over.
func (f *fleet) count(what []count, at time.Duration) {
	if at < f.Horizon {
		what[at/time.Second].Add(1)
	}
}

// run makes all calls, and returns when they have ended.
func (f *fleet) run() {
	ctx, end := context.WithDeadline(context.Background(), f.begin.Add(f.Horizon))
	defer end()
	var all sync.WaitGroup
	for _, at := range f.arrivals() {
		time.Sleep(at - f.now())
		f.LatestCall.raise((f.now() - at).Microseconds())
		all.Go(func() { f.call(ctx, at) })
	}
	all.Wait()
}

// call makes a call through any of the processes. One that is under way at the
// end is lost if it has been for longer than an attempt may take; a younger one
// does not count.
func (f *fleet) call(ctx context.Context, began time.Duration) {
	f.count(f.Calls, began)
	err := f.calls[rand.IntN(len(f.calls))](ctx)
	at := f.now()
	switch {
	case at >= f.Horizon:
		if f.Horizon-began > f.Timeout {
			f.count(f.Lost, f.Horizon-1)
		}
	case err == nil:
		f.count(f.Good, at)
	default:
		f.count(f.Lost, at)
	}
}

// get makes an attempt with a client.
func get(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	return finish(client.Do(req))
}

// finish reads an answer to its end. Only 200 is a success.
func finish(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the service answers %s", resp.Status)
	}
	return nil
}

// call is the process of a fleet. It tells its counts at the end of the run.
func callService(o order, _ *json.Decoder, out *json.Encoder) error {
	f := newFleet(o)
	f.run()
	return out.Encode(&f.fleetCounts)
}
