package fault

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/gobackoff/backoff/backofftest/internal/record"
)

// An Injector brings about the faults of a plan, and records the attempts. Its
// methods put it into a client: [Injector.Transport], [Injector.Handler],
// [Injector.Op], [Injector.Dial], [Injector.Listen], [Injector.Proxy]. All of
// them share the plan and the count of attempts.
//
// The zero value passes everything, and records it. An Injector is safe for
// concurrent use, and must not be copied after its first use. Set its fields
// before that.
type Injector struct {
	// Plan chooses the fault of each attempt. The default, nil, passes all.
	Plan Plan

	// PerConnection makes a whole connection one attempt: the plan is asked when
	// it is made, and Reset does not wait for a request. The default, false, makes
	// each request on it an attempt: what is sent after the response began is the
	// next one. That suits protocols in which the two sides take turns, such as
	// HTTP/1 and those of databases, and not TLS, HTTP/2 or gRPC.
	PerConnection bool

	mu       sync.Mutex
	attempts []*entry
	begun    int
	faults   int
}

// most is how many attempts an Injector keeps.
const most = 1000

// An Attempt is what is known about an attempt. What a carrier does not see is
// zero.
type Attempt struct {
	Number int       // from 1, in the order in which attempts begin
	Began  time.Time // when the request began
	Ended  time.Time // when the header of the response was there, or the error; zero before
	Fault  Fault

	Method string // of an HTTP request
	Path   string // of its URL, escaped, without a query
	Key    string // its Idempotency-Key

	Sum    string // SHA-256, in hexadecimal, of what was read of the request's body
	Length int64  // bytes that were read; on a connection, all that was sent
	Whole  bool   // the body was read to its end, or there is none

	Status int   // of the response that the client got; 0 if it got none
	Err    error // that it got instead
	Open   bool  // the client has not closed the response's body
}

// An entry is an attempt that may be under way.
type entry struct {
	Attempt                   // under the lock of the Injector
	exchange *record.Exchange // nil if it is not one of HTTP
}

// SetPlan replaces the plan for the attempts that begin from now on; nil passes
// all. Attempts are counted on.
func (i *Injector) SetPlan(p Plan) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Plan = p
}

// Attempts returns the attempts so far, at most the first 1000.
func (i *Injector) Attempts() []Attempt {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := make([]Attempt, 0, len(i.attempts))
	for _, e := range i.attempts {
		a := e.Attempt
		if e.exchange != nil {
			n := e.exchange.Note()
			a.Sum, a.Length, a.Whole = n.Body.Sum, n.Body.Length, n.Body.Whole
			a.Open = n.Status != 0 && !n.Response.Closed
		}
		all = append(all, a)
	}
	return all
}

// Counts returns how many attempts there were, and how many of them had a fault.
func (i *Injector) Counts() (attempts, faults int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.begun, i.faults
}

// begin records an attempt, and asks the plan for its fault.
func (i *Injector) begin(a Attempt, exchange *record.Exchange) *entry {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.begun++
	a.Number, a.Began = i.begun, time.Now()
	if i.Plan != nil {
		a.Fault = i.Plan(a)
	}
	if a.Fault != OK() {
		i.faults++
	}
	e := &entry{Attempt: a, exchange: exchange}
	if len(i.attempts) < most {
		i.attempts = append(i.attempts, e)
	}
	return e
}

// end records the outcome of an attempt.
func (i *Injector) end(e *entry, status int, err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e.Ended.IsZero() {
		e.Ended, e.Status, e.Err = time.Now(), status, err
	}
	return err
}

// fail records that the response of an attempt broke off.
func (i *Injector) fail(e *entry, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e.Ended, e.Err = time.Now(), err
}

// grow records that n more bytes of a request were sent.
func (i *Injector) grow(e *entry, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e.Length += int64(n)
}

// connectionReset is the error of a connection that was reset.
func connectionReset(op string) error { return &net.OpError{Op: op, Net: "tcp", Err: errReset} }

// broken returns the error of a client whose response ends too early.
func (f Fault) broken() error {
	if f.kind == truncate {
		return io.ErrUnexpectedEOF
	}
	return connectionReset("read")
}
