package sim

import (
	"time"
)

// A Scenario is a traffic, a service, and what befalls it. [Dip], [Chain] and [Herd]
// return those of the reference; everything in them may be changed. Exactly one of Rate,
// Every, Users and Trace says when calls begin.
type Scenario struct {
	// Name stands in titles.
	Name string

	// Rate is calls per second of all users together, as a Poisson process.
	Rate float64
	// Every lets calls begin exactly this far apart.
	Every time.Duration
	// Users is the number of users of a closed loop: each calls, waits for the end of
	// the call, and thinks for an exponential time with the mean Think.
	Users int
	Think time.Duration
	// Trace lists when calls begin. Beyond its end there are none.
	Trace Trace
	// Failed says that every call has just failed when it begins, and so begins with a wait.
	// Of that failure nothing else is counted.
	Failed bool

	// Processes share the calls at random, in each layer. 0 means 1.
	Processes int
	// Layers is how many processes stand between a user and the service, one behind the
	// other. 0 means 1.
	Layers int
	// Timeout is how long an attempt at the service may take, from being sent to being
	// answered. The service does not notice its end. A policy's own AttemptTimeout counts
	// where it is shorter, and in the layers above. 0 means no limit.
	Timeout time.Duration
	// Deadline is how long a user waits for his call. All layers know it, as by the deadline
	// of a context. 0 means for ever.
	Deadline time.Duration
	// Delay is the one-way time on the network, abs(Normal(Delay, DelaySD)).
	Delay, DelaySD time.Duration

	Server Server
	Fault  Fault

	// Horizon is how long is simulated, and Until when the last call begins; 0 means
	// Horizon.
	Horizon, Until time.Duration
	// From and To bound what the figures are taken of. 0 and 0 mean from the beginning of
	// the fault to the horizon.
	From, To time.Duration
	// Recovered is the share of the calls offered per second that must be answered, for
	// RecoveredFor, for the service to count as recovered. 0 means 0.9, and 5 s.
	Recovered    float64
	RecoveredFor time.Duration
}

// A Server serves attempts in the order they come. The zero value answers at once.
type Server struct {
	// Servers is how many attempts are served at the same time. 0 means 1.
	Servers int
	// Service is how long one takes. The capacity is Servers/mean per second.
	Service Distribution
	// Limit is how many attempts there may be, waiting and being served. More are rejected at
	// once. 0 means no limit.
	Limit int
	// RejectCost is what a rejection costs, as a share of the mean service time. 0 means
	// nothing, which is more than real servers can promise.
	RejectCost float64
	// DropExpired drops, at no cost, what its client has given up before it is its turn.
	// Otherwise it is served all the same.
	DropExpired bool
	// RetryAfter is what a rejection and a fault ask for. 0 means nothing.
	RetryAfter time.Duration
	// Errors is the share of attempts that fail although there is no fault, after their
	// service time.
	Errors float64
}

// A Fault is a time of trouble.
type Fault struct {
	From, For time.Duration
	// Capacity is the share of its capacity that the server keeps: 0.3 is a dip to 30 %. 0
	// means all of it; see Down.
	Capacity float64
	// Errors is the share of attempts that fail, from 0 to 1, after their service time.
	Errors float64
	// Down refuses every attempt at once.
	Down bool
}

func (s *Scenario) layers() int { return max(1, s.Layers) }

// window returns what the figures are taken of.
func (s *Scenario) window() (from, to time.Duration) {
	if s.From == 0 && s.To == 0 {
		return s.Fault.From, s.Horizon + 1
	}
	if s.To == 0 {
		return s.From, s.Horizon + 1
	}
	return s.From, s.To
}

func (s *Scenario) recovered() (share float64, seconds int) {
	share, lasting := s.Recovered, s.RecoveredFor
	if share == 0 {
		share = 0.9
	}
	if lasting == 0 {
		lasting = 5 * time.Second
	}
	return share, max(1, int(lasting/time.Second))
}

// load is the calls per second that are offered, over the whole run.
func (s *Scenario) load() float64 {
	switch {
	case s.Users > 0:
		return float64(s.Users) / (s.Think + s.Server.Service.Mean()).Seconds()
	case s.Trace != nil:
		return float64(s.Trace.calls()) / max(1, min(s.Trace.end(), s.until()).Seconds())
	case s.Every > 0:
		return 1 / s.Every.Seconds()
	}
	return s.Rate
}

// Capacity is how many attempts the server can serve per second; +Inf where they take no time.
func (s *Server) Capacity() float64 {
	return float64(max(1, s.Servers)) / s.Service.Mean().Seconds()
}
