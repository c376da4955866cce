package sim

import "time"

// A Scenario is traffic, a service, and a fault of the service. [Dip], [Chain]
// and [Herd] return the scenarios of the reference, and all their fields may be
// changed. Exactly one of Rate, Every, Users and Trace says when calls begin.
type Scenario struct {
	// Name is used in titles.
	Name string

	// Rate is the number of calls per second of all users, as a Poisson
	// process.
	Rate float64
	// Every is the exact interval between calls.
	Every time.Duration
	// Users is the number of users of a closed loop. Each user calls, waits for
	// the call to end, and thinks for an exponential time with the mean Think.
	Users int
	Think time.Duration
	// Calls is how many calls the users make together, as a job does that has so
	// much to do. 0 means no limit.
	Calls int
	// Trace lists when calls begin. After its end there are none.
	Trace Trace
	// Failed says that the first attempt of every call has just failed, so that
	// each call begins with a wait. That failure is not counted.
	Failed bool

	// Processes is the number of processes in each layer, which share the calls
	// at random. 0 means 1.
	Processes int
	// Layers is how many layers of processes a call passes through before it
	// reaches the service. 0 means 1.
	Layers int
	// Timeout is how long an attempt at the service may take, including the
	// network. The service does not notice a timeout. The AttemptTimeout of a
	// policy applies if it is shorter, and in the layers above. 0 means no
	// limit.
	Timeout time.Duration
	// Deadline is how long a user waits for a call. All layers know the
	// deadline, as from a context. 0 means no limit.
	Deadline time.Duration
	// Delay and DelaySD give the one-way delay of the network, which is
	// abs(Normal(Delay, DelaySD)).
	Delay, DelaySD time.Duration

	// Server is the service, and Fault is what happens to it.
	Server Server
	Fault  Fault

	// Horizon is how long the simulation runs. Until is when calls stop
	// beginning; 0 means Horizon.
	Horizon, Until time.Duration
	// From and To bound the time that the figures cover. If both are 0, the
	// figures cover the time from the beginning of the fault to the horizon.
	From, To time.Duration
	// The service counts as recovered when a share Recovered of the calls
	// offered per second succeeds for 5 s. 0 means 0.9.
	Recovered float64
}

// A Server serves attempts in the order of their arrival. The zero value
// answers at once.
type Server struct {
	// Servers is how many attempts are served at the same time. 0 means 1.
	Servers int
	// Service is how long an attempt takes. The capacity is Servers/mean per
	// second.
	Service Distribution
	// Limit is how many attempts may wait or be served at the same time.
	// Further attempts are rejected at once. 0 means no limit.
	Limit int
	// Rate is how many attempts per second the server accepts, though it could
	// serve more, and Burst how many at once after a pause; 0 means one. It
	// answers others with "too much". A Rate of 0 means no limit.
	Rate  float64
	Burst int
	// Throttles says that the server answers "too much" when it rejects an
	// attempt because of Limit, or because it is Down, like one that takes
	// overload for a caller who exceeds a rate.
	Throttles bool
	// RejectCost is how much work a rejection is, as a share of the mean
	// service time. 0 means none, although rejections of real servers cost
	// something.
	RejectCost float64
	// DropExpired drops an attempt, at no cost, if its client has given up
	// before the server begins to work on it. Otherwise the server does the
	// work.
	DropExpired bool
	// RetryAfter is the wait that rejections and failures ask for. 0 means
	// none.
	RetryAfter time.Duration
	// Errors is the share of attempts that fail after their service time when
	// there is no fault.
	Errors float64
}

// A Fault is a time in which the service is slow, fails or is down.
type Fault struct {
	// From is when the fault begins, and For how long it lasts.
	From, For time.Duration
	// Capacity is the share of its capacity, and of its Rate, that the server
	// has left: 0.3 is a dip to 30 %. 0 means all of it; see Down.
	Capacity float64
	// Errors is the share of attempts that fail after their service time, from
	// 0 to 1.
	Errors float64
	// Down says that every attempt is rejected at once.
	Down bool
	// Part is the share of the calls that need the part of the service that is
	// Down, such as a shard. All attempts of such a call are rejected, and the
	// other calls do not notice. 0 means that the whole service is Down.
	Part float64
}

// LeastTime returns how long the service, and users who do not pause, need for
// all Calls if nothing goes wrong. It returns 0 if there is no limit to the
// calls.
func (s *Scenario) LeastTime() time.Duration {
	calls, unloaded := float64(s.Calls), s.Server.Service.Mean()+2*s.Delay
	least := max(calls/s.Server.Capacity(), calls/float64(max(1, s.Users))*unloaded.Seconds())
	if s.Server.Rate > 0 {
		least = max(least, (calls-float64(max(1, s.Server.Burst)))/s.Server.Rate)
	}
	return seconds(least)
}

// drainFrom returns the beginning of the time that is called Drain.
func (s *Scenario) drainFrom() time.Duration {
	if s.Calls > 0 {
		return 0
	}
	return s.Fault.end()
}

func (s *Scenario) layers() int { return max(1, s.Layers) }

// window returns the time that the figures cover.
func (s *Scenario) window() (from, to time.Duration) {
	if s.From == 0 && s.To == 0 {
		return s.Fault.From, s.Horizon + 1
	}
	if s.To == 0 {
		return s.From, s.Horizon + 1
	}
	return s.From, s.To
}

// load returns the calls per second that users make over the whole run.
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

// Capacity returns how many attempts the server can serve per second, and +Inf
// if attempts take no time.
func (s *Server) Capacity() float64 {
	return float64(max(1, s.Servers)) / s.Service.Mean().Seconds()
}
