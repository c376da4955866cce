package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A service works on attempts in the order in which they come, in a few slots,
// whether the client still waits or not. The work is a sleep, so that it costs
// the machine nothing.
type service struct {
	setup
	begin time.Time
	queue chan *job
	serviceCounts
}

// serviceCounts are what a service says of a run.
type serviceCounts struct {
	Arrived, Refused, Done count
	Abandoned              count // done for clients that had gone
	LongestQueue           count
	LatestAnswer           count // microseconds after the slot should have been free
}

// A count may be changed by all goroutines, and is a number in JSON.
type count struct{ atomic.Int64 }

func (c *count) MarshalJSON() ([]byte, error) { return json.Marshal(c.Load()) }
func (c *count) UnmarshalJSON(b []byte) error {
	var n int64
	err := json.Unmarshal(b, &n)
	c.Store(n)
	return err
}

// raise makes the count at least n.
func (c *count) raise(n int64) {
	for {
		old := c.Load()
		if n <= old || c.CompareAndSwap(old, n) {
			return
		}
	}
}

// A job is an attempt in the queue or in a slot.
type job struct {
	came time.Time
	done chan struct{}
	gone atomic.Bool // the client has left
}

func newService(s setup, begin time.Time) *service {
	v := &service{setup: s, begin: begin, queue: make(chan *job, s.Queue)}
	for range s.Slots {
		go v.slot()
	}
	return v
}

// slot works on one job after the other. A job begins when the one before
// should have ended: if the machine wakes the slot late, the capacity stays what
// it is.
func (v *service) slot() {
	var free time.Time
	for j := range v.queue {
		start := j.came
		if start.Before(free) {
			start = free
		}
		free = start.Add(v.work(start.Sub(v.begin)))
		time.Sleep(time.Until(free))
		v.LatestAnswer.raise(time.Since(free).Microseconds())
		v.Done.Add(1)
		if j.gone.Load() {
			v.Abandoned.Add(1)
		}
		close(j.done)
	}
}

// ServeHTTP implements [http.Handler].
func (v *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.Arrived.Add(1)
	j := &job{came: time.Now(), done: make(chan struct{})}
	select {
	case v.queue <- j:
		v.LongestQueue.raise(int64(len(v.queue)))
	default:
		v.Refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	select {
	case <-j.done:
		_, _ = io.WriteString(w, "ok")
	case <-r.Context().Done():
		j.gone.Store(true)
	}
}

// serve is the process of a service. It tells its addresses, is told when the
// run begins, and tells its counts when its input ends.
func serve(o order, in *json.Decoder, out *json.Encoder) error {
	var listeners []net.Listener
	var addresses []string
	for range o.Setup.Ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		listeners, addresses = append(listeners, l), append(addresses, l.Addr().String())
	}
	if err := out.Encode(addresses); err != nil {
		return err
	}
	var begin time.Time
	if err := in.Decode(&begin); err != nil {
		return err
	}
	v := newService(o.Setup, begin)
	server := &http.Server{Handler: v, ErrorLog: log.New(io.Discard, "", 0)}
	for _, l := range listeners {
		go func() { _ = server.Serve(l) }()
	}
	if err := in.Decode(new(any)); err != io.EOF {
		return err
	}
	return out.Encode(&v.serviceCounts)
}
