package fault

import (
	"sync"
	"time"
)

// An Injector brings about the faults of a plan, and records the attempts. Its
// methods put it into a client: [Injector.Transport], [Injector.Handler],
// [Injector.Op], [Injector.Dial], [Injector.Listen], [Injector.Proxy]. All of
// them share the plan and the count of attempts.
//
// On a connection, each request is an attempt. A request ends where the response
// begins: what the client sends after that is the next one. That suits protocols
// in which the two sides take turns, such as HTTP/1 and those of databases, and
// not TLS, HTTP/2 or gRPC.
//
// The zero value passes everything, and records it. An Injector is safe for
// concurrent use, and must not be copied after its first use.
type Injector struct {
	// Plan chooses the fault of each attempt. The default, nil, passes all. Set it
	// before the first use; [Injector.SetPlan] replaces it later.
	Plan Plan

	mu       sync.Mutex
	attempts []*Attempt
	begun    int
}

// An Attempt is what is known about an attempt. What a carrier does not see is
// zero.
type Attempt struct {
	Number int       // from 1, in the order in which attempts begin
	Began  time.Time // when the request began
	Ended  time.Time // when the response began, or the error came; zero before
	Fault  Fault

	Method, Path string // of an HTTP request; the path of its URL is escaped, and without a query
	Key          string // its Idempotency-Key

	Sum    string // SHA-256, in hexadecimal, of what was read of the request's body
	Length int64  // bytes that were read
	Whole  bool   // the body was read to its end, or there is none

	Status int   // of the response that the client got; 0 if it got none
	Err    error // that it got instead; on a connection nil after Lost
	Open   bool  // the client has not closed the response's body
}

// SetPlan replaces the plan for the attempts that begin from now on; nil passes
// all. Attempts are counted on.
func (i *Injector) SetPlan(p Plan) { i.locked(func() { i.Plan = p }) }

// locked calls do under the lock.
func (i *Injector) locked(do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	do()
}

// Attempts returns the attempts so far, at most the first 1000.
func (i *Injector) Attempts() []Attempt {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := make([]Attempt, len(i.attempts))
	for n, a := range i.attempts {
		all[n] = *a
	}
	return all
}

// begin records an attempt, and asks the plan for its fault.
func (i *Injector) begin(a Attempt) *Attempt {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.begun++
	a.Number, a.Began = i.begun, time.Now()
	if i.Plan != nil {
		a.Fault = i.Plan(a)
	}
	if i.begun <= 1000 {
		i.attempts = append(i.attempts, &a)
	}
	return &a
}

// end records the outcome of an attempt, and returns its error.
func (i *Injector) end(a *Attempt, status int, err error) error {
	i.locked(func() { a.Ended, a.Status, a.Err = time.Now(), status, err })
	return err
}
