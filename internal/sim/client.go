package sim

import "github.com/gobackoff/backoff"

// A Client is what is compared: a name, and how to make what each process of a fleet uses.
type Client struct {
	Name string
	// New makes the objects of one process. It is called for every process of every
	// layer, as all these are state of a process.
	New func(Place) Process
}

// A Place is where a process stands.
type Place struct {
	// Layer is 1 for the layer the user calls, and Layers for the one that calls the
	// service.
	Layer, Layers int
	// Rand is the simulation's source of numbers from [0,1), for objects that draw. Policies,
	// breakers and a [limit.Throttle] without a Rand of their own get it in any case.
	Rand func() float64
}

// A Process is what one process calls with. The zero value makes every call under the zero
// [backoff.Policy].
type Process struct {
	// Policy is used as it is, but for AttemptTimeout: the time is taken by the simulation,
	// as a context would take it from the real clock.
	Policy backoff.Policy
	// Breaker stands where Guard says. nil means none.
	Breaker *backoff.Breaker
	Guard   Guard
	// Hedge is used instead of the policy, in the layer that calls the service. Its Budget must
	// be nil or a RetryBudget. nil means none.
	Hedge *backoff.Hedge
	// Unmarked says that a layer above does not see that this one has given up, as
	// behind a protocol that does not carry it: it sees an error like any other.
	Unmarked bool
}

// A Guard says what of a [backoff.Policy] a breaker guards.
type Guard uint8

const (
	// GuardCalls is Stack(breaker, policy): one verdict per call.
	GuardCalls Guard = iota
	// GuardAttempts is Stack(policy, breaker): one verdict per attempt.
	GuardAttempts
	// GuardRetries hears of all attempts and refuses retries only.
	GuardRetries
)

// Under returns a client of which every process in every layer uses the same policy,
// with a budget and a breaker of its own around it. budget and breaker may be nil.
func Under(name string, p backoff.Policy, budget func() backoff.Budget, breaker func() *backoff.Breaker) Client {
	return Client{Name: name, New: func(Place) Process {
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
