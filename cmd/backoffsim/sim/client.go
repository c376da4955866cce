package sim

import (
	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// A Client is what a simulation compares: a name, and a function that makes the
// objects of each process.
type Client struct {
	Name string
	// New makes the objects of one process. It is called for every process of
	// every layer, because budgets, breakers and hedges are state of a process.
	New func(Environment) Process
}

// An Environment describes the process that [Client.New] makes objects for.
type Environment struct {
	// Layer is 1 for the layer that users call, and Layers for the layer that
	// calls the service.
	Layer, Layers int
	// Rand is the simulation's source of numbers from [0,1), for objects that
	// need one. Policies, breakers and a [limit.Throttle] without a Rand of
	// their own get it in any case.
	Rand func() float64
}

// A Process holds the objects that one process makes its calls with. With the
// zero value every call is made under the zero [backoff.Policy].
type Process struct {
	// Policy is used as it is, except that the simulation applies the attempt
	// timeouts, as a context would on the real clock.
	Policy backoff.Policy
	// Breaker guards what Guard says. nil means no breaker.
	Breaker *backoff.Breaker
	Guard   Guard
	// Hedge replaces the policy, in the layer that calls the service. Its
	// Budget must be nil or a RetryBudget. nil means that calls are not hedged.
	Hedge *hedge.Hedge
	// Unmarked hides from the layer above that this process has given up, as a
	// protocol does that does not carry the mark: the layer above receives an
	// error like any other, and retries it.
	Unmarked bool
}

// A Guard says which part of a [backoff.Policy] a breaker guards.
type Guard uint8

const (
	// GuardCalls is a breaker around the policy: one verdict for each call.
	GuardCalls Guard = iota
	// GuardAttempts is a breaker inside the policy: one verdict for each attempt.
	GuardAttempts
	// GuardRetries counts all attempts and refuses only retries.
	GuardRetries
)

// NewClient returns a client whose processes use the same policy in every
// layer, each with its own budget and its own breaker around the policy. budget
// and breaker may be nil.
func NewClient(name string, p backoff.Policy, budget func() backoff.Budget, breaker func() *backoff.Breaker) Client {
	return Client{Name: name, New: func(Environment) Process {
		made := Process{Policy: p}
		if budget != nil {
			made.Policy.Budget = budget()
		}
		if breaker != nil {
			made.Breaker = breaker()
		}
		return made
	}}
}

// With returns a client that changes each process of c by the given function.
func (c Client) With(change func(Environment, *Process)) Client {
	makeProcess := c.New
	c.New = func(env Environment) Process {
		made := makeProcess(env)
		change(env, &made)
		return made
	}
	return c
}

// WithoutMarks returns a client whose processes do not show the layers above
// that they have given up. See [Process.Unmarked].
func (c Client) WithoutMarks() Client {
	return c.With(func(_ Environment, p *Process) { p.Unmarked = true })
}
