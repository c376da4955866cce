// Package fault brings about faults on a plan, for tests of code that retries.
// It resets connections, loses responses, answers with a status, cuts bodies and
// hangs, in a client of HTTP, on any connection, or around a function. It
// records what was sent, and a test checks that in one line:
//
//	sent := &fault.Injector{Plan: fault.Script(
//		fault.Lost(),      // the service does the first request; its response is lost
//		fault.Status(503), // the second one does not reach the service
//	)} // all others pass
//	client := http.Client{Transport: &backoffhttp.Transport{Base: sent.Handler(service)}}
//	// ... make the call ...
//	sent.Check(t, 3, fault.SameKey, fault.WholeBody, fault.Closed)
//
// Everything but a [Proxy] works in a bubble of testing/synctest. The package
// imports testing: it is for tests.
package fault

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// A Fault is what happens to one attempt: a request, and the response to it.
// The functions of this package make one; the zero Fault is [OK]. Faults can be
// compared by ==.
type Fault struct {
	kind   int
	text   string // its code
	status int
	after  time.Duration // the Retry-After of Status
	body   string        // of Status
	bytes  int64         // of the response that pass before a cut; -1: not even its header
	wait   time.Duration // for the response
}

// The kinds of a Fault. One without a kind passes, after its wait.
const (
	status = iota + 1
	reset
	cut
)

// forever is the wait of Hang.
const forever = 1<<63 - 1

// OK passes on the request and the response: it is no fault.
func OK() Fault { return Fault{} }

// Status answers with an HTTP status, such as 503, in place of the service,
// which the request does not reach. The response has no body; see [Fault.Body].
// On a connection, the response is one of HTTP/1.1 and the last one.
func Status(code int) Fault {
	return Fault{kind: status, status: code, text: fmt.Sprintf("Status(%d)", code)}
}

// Reset resets the connection before the request reaches the service.
func Reset() Fault { return Fault{kind: reset, text: "Reset"} }

// Lost passes on the request, waits until the service begins to respond, and
// resets the connection. The service has done its work, and the client cannot
// know that.
func Lost() Fault { return Fault{kind: cut, bytes: -1, text: "Lost"} }

// Cut resets the connection after n bytes of the response; 0 or less lets no byte
// pass. Over HTTP it counts the bytes of the body, and a shorter body breaks at
// its end. On a connection it counts all bytes, those of headers too, and a
// shorter response passes. An operation has no bytes: Cut is [Lost] to it.
func Cut(n int64) Fault { return Fault{kind: cut, bytes: max(0, n), text: fmt.Sprintf("Cut(%d)", n)} }

// Hang passes on the request, and never the response. It lasts until the context
// of the attempt ends or, on a connection, until the client closes it.
func Hang() Fault { return Fault{wait: forever, text: "Hang"} }

// Slow holds back the response for d. A d of 0 or less holds back nothing.
func Slow(d time.Duration) Fault { return Fault{wait: d, text: fmt.Sprintf("Slow(%v)", d)} }

// Body returns f, which may be [Status], with a body: Status(200).Body("<html>")
// is a wrong response.
func (f Fault) Body(s string) Fault { f.body = s; return f }

// RetryAfter returns f, which may be [Status], with a Retry-After of d, in whole
// seconds, rounded up. A d of 0 or less sends none.
func (f Fault) RetryAfter(d time.Duration) Fault {
	f.after = (max(0, d) + time.Second - 1).Truncate(time.Second)
	f.text += fmt.Sprintf(".RetryAfter(%v)", f.after)
	return f
}

// String returns f as its code reads, such as "Status(503)". It leaves out Body.
func (f Fault) String() string { return cmp.Or(f.text, "OK") }

// A Plan returns the fault of an attempt, of which Number, Began, and over HTTP
// Method, Path and Key are known. A nil Plan is one of [OK].
//
// An [Injector] calls its Plan for one attempt at a time. A Plan must not call
// the Injector or its [Proxy].
type Plan func(Attempt) Fault

// Script returns a [Plan] that gives the nth attempt the nth of faults. Attempts
// after the last of faults pass.
func Script(faults ...Fault) Plan {
	return func(a Attempt) Fault {
		if a.Number > len(faults) {
			return OK()
		}
		return faults[a.Number-1]
	}
}

// Randomly returns a [Plan] that gives an attempt a fault with the probability p,
// from 0 to 1: one of faults, each as likely as the others. Without faults, the
// Plan panics where one is due.
//
// The faults differ from run to run. If the test fails, it logs a seed; the
// environment variable FAULT_SEED with that number repeats the faults. A value
// there that is no number fails the test at once. A draw depends on the seed and
// the number of the attempt alone.
func Randomly(t testing.TB, p float64, faults ...Fault) Plan {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("FAULT_SEED"), fmt.Sprint(rand.Uint64())), 10, 64)
	if err != nil {
		t.Fatalf("FAULT_SEED: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("FAULT_SEED=%d repeats these faults", seed)
		}
	})
	return func(a Attempt) Fault {
		if r := rand.New(rand.NewPCG(seed, uint64(a.Number))); r.Float64() < p {
			return faults[r.IntN(len(faults))]
		}
		return OK()
	}
}
