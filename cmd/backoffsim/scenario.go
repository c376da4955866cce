package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// scenarioFlags are the flags that change a scenario. Only flags that the user
// has set have an effect.
type scenarioFlags struct {
	set *flag.FlagSet

	rate, load, capacity float64
	every                time.Duration
	users, calls         int
	think                time.Duration
	trace                string
	service, p50, p99    time.Duration
	queue                int
	limit                float64
	burst                int
	throttles            bool
	dropExpired          bool
	rejectCost           float64
	retryAfter           time.Duration
	errors               float64
	timeout, deadline    time.Duration
	delay, delaySD       time.Duration
	processes, layers    int
	faultAt, fault       time.Duration
	depth, faultErrors   float64
	down                 bool
	part                 float64
	horizon              time.Duration
}

// define defines the flags, with the values of a scenario as their defaults.
func (f *scenarioFlags) define(set *flag.FlagSet, s sim.Scenario) {
	f.set = set
	set.Float64Var(&f.rate, "rate", s.Rate, "calls per second of all users, at random, a `number`")
	set.Float64Var(&f.load, "load", 0, "instead of -rate: calls as a `share` of capacity, such as 0.8")
	set.DurationVar(&f.every, "every", s.Every, "instead of -rate: calls exactly this `time` apart")
	set.IntVar(&f.users, "users", s.Users, "instead of -rate: a `number` of users who each call, wait for the answer, and think")
	set.DurationVar(&f.think, "think", s.Think, "the mean `time` that users think")
	set.IntVar(&f.calls, "calls", s.Calls, "with -users: a `number` of calls that they make together, as in a job; 0 means no limit")
	set.StringVar(&f.trace, "trace", "", "instead of -rate: a CSV `file` of recorded traffic: lines of t,count, or of the time of a call")

	set.Float64Var(&f.capacity, "capacity", 0, "how many attempts the service can serve per second, a `number`")
	set.DurationVar(&f.service, "service", s.Server.Service.Mean(), "the mean `time` that the service takes, exponential")
	set.DurationVar(&f.p50, "p50", 0, "instead of -service: the median `time` that the service takes")
	set.DurationVar(&f.p99, "p99", 0, "with -p50: the `time` that 99 of 100 answers stay below; log-normal")
	set.IntVar(&f.queue, "queue", s.Server.Limit, "the `number` of attempts that may wait or be served; 0 means no limit")
	set.Float64Var(&f.limit, "limit", s.Server.Rate, "the `number` of attempts per second that the service accepts; to others it answers \"too much\"; 0 means no limit")
	set.IntVar(&f.burst, "burst", max(1, s.Server.Burst), "with -limit: the `number` of attempts that it accepts at once after a pause")
	set.BoolVar(&f.throttles, "throttles", s.Server.Throttles, "the service answers \"too much\" when its -queue is full, or when it is -down")
	set.BoolVar(&f.dropExpired, "drop-expired", s.Server.DropExpired, "the service drops attempts whose client has given up")
	set.Float64Var(&f.rejectCost, "reject-cost", s.Server.RejectCost, "what a rejection costs the service, as a `share` of the service time")
	set.DurationVar(&f.retryAfter, "retry-after", s.Server.RetryAfter, "the `time` that rejections and failures ask the client to wait")
	set.Float64Var(&f.errors, "errors", s.Server.Errors, "the `share` of attempts that fail at any time")

	set.DurationVar(&f.timeout, "timeout", s.Timeout, "the longest `time` of an attempt at the service; 0 means no limit")
	set.DurationVar(&f.deadline, "deadline", s.Deadline, "the longest `time` of a call; 0 means no limit")
	set.DurationVar(&f.delay, "delay", s.Delay, "the one-way `time` on the network")
	set.DurationVar(&f.delaySD, "delay-sd", s.DelaySD, "the standard deviation of -delay, a `time`")
	set.IntVar(&f.processes, "processes", max(1, s.Processes), "the `number` of client processes in each layer, each with budgets and breakers of its own")
	set.IntVar(&f.layers, "layers", max(1, s.Layers), "the `number` of layers that each retry")

	set.DurationVar(&f.faultAt, "fault-at", s.Fault.From, "when the fault begins, a `time`")
	set.DurationVar(&f.fault, "fault", s.Fault.For, "how long the fault lasts, a `time`; 0 means that there is none")
	set.Float64Var(&f.depth, "depth", s.Fault.Capacity, "the `share` of its capacity that the service has left in the fault; 0 means all")
	set.Float64Var(&f.faultErrors, "fault-errors", s.Fault.Errors, "the `share` of attempts that fail in the fault")
	set.BoolVar(&f.down, "down", s.Fault.Down, "the service refuses everything in the fault")
	set.Float64Var(&f.part, "part", s.Fault.Part, "with -down: the `share` of the calls that need the part of the service that is down; 0 means all")
	set.DurationVar(&f.horizon, "horizon", s.Horizon, "the `time` that is simulated")
}

// given reports which flags the user has set.
func (f *scenarioFlags) given() map[string]bool {
	all := map[string]bool{}
	f.set.Visit(func(g *flag.Flag) { all[g.Name] = true })
	return all
}

// apply changes a scenario by the flags that the user has set.
func (f *scenarioFlags) apply(s *sim.Scenario) error {
	given := f.given()
	if err := f.applyServer(s, given); err != nil {
		return err
	}
	if err := f.applyTraffic(s, given); err != nil {
		return err
	}
	for name, change := range map[string]func(){
		"calls": func() { s.Calls = f.calls }, "limit": func() { s.Server.Rate = f.limit }, "burst": func() { s.Server.Burst = f.burst },
		"throttles": func() { s.Server.Throttles = f.throttles },
		"queue":     func() { s.Server.Limit = f.queue }, "drop-expired": func() { s.Server.DropExpired = f.dropExpired },
		"reject-cost": func() { s.Server.RejectCost = f.rejectCost }, "retry-after": func() { s.Server.RetryAfter = f.retryAfter },
		"errors": func() { s.Server.Errors = f.errors }, "timeout": func() { s.Timeout = f.timeout },
		"deadline": func() { s.Deadline = f.deadline }, "delay": func() { s.Delay = f.delay }, "delay-sd": func() { s.DelaySD = f.delaySD },
		"processes": func() { s.Processes = f.processes }, "layers": func() { s.Layers = f.layers },
		"fault-at": func() { s.Fault.From = f.faultAt }, "fault": func() { s.Fault.For = f.fault },
		"depth": func() { s.Fault.Capacity = f.depth }, "fault-errors": func() { s.Fault.Errors = f.faultErrors },
		"down": func() { s.Fault.Down = f.down }, "part": func() { s.Fault.Part = f.part }, "horizon": func() { s.Horizon = f.horizon },
	} {
		if given[name] {
			change()
		}
	}
	if s.Fault.For == 0 {
		s.Fault = sim.Fault{}
	}
	if err := checkTrace(s); err != nil {
		return err
	}
	return asFlags(s.Validate())
}

// checkTrace refuses a fault that recorded traffic does not outlast: the
// recovery could not be seen.
func checkTrace(s *sim.Scenario) error {
	if len(s.Trace) == 0 || s.Failed || s.Fault.For == 0 {
		return nil
	}
	last := s.Trace[len(s.Trace)-1]
	if end, fault := last.At+last.For, s.Fault.From+s.Fault.For; end < fault+5*time.Second {
		return fmt.Errorf("-trace has calls for %v, and the fault ends at %v: want -fault-at and -fault to leave 5s of them, or -fault 0", end, fault)
	}
	return nil
}

// flagNames are the flags for the fields that the simulator names in its
// errors.
var flagNames = map[string]string{
	"MaxAmplification": "-max-amplification", "MustRecover": "-must-recover", "MinSuccess": "-min-success",
	"Rate": "-rate", "Every": "-every", "Users": "-users", "Think": "-think", "Calls": "-calls", "Trace": "-trace",
	"Server.Rate": "-limit", "Server.Burst": "-burst",
	"Server.Service": "-service", "Server.Limit": "-queue", "Server.RejectCost": "-reject-cost",
	"Server.RetryAfter": "-retry-after", "Server.Errors": "-errors", "Timeout": "-timeout", "Deadline": "-deadline",
	"Delay": "-delay", "DelaySD": "-delay-sd", "Processes": "-processes", "Layers": "-layers", "Fault": "the fault",
	"Fault.From": "-fault-at", "Fault.For": "-fault", "Fault.Capacity": "-depth", "Fault.Errors": "-fault-errors", "Fault.Part": "-part", "Fault.Down": "-down",
	"Horizon": "-horizon",
}

// asFlags returns an error of the simulator with flags in place of field names.
func asFlags(err error) error {
	if err == nil {
		return nil
	}
	words := strings.Split(strings.TrimPrefix(err.Error(), "scenario: "), " ")
	for i, word := range words {
		field := strings.TrimRight(word, ",")
		if name, ok := flagNames[field]; ok {
			words[i] = name + word[len(field):]
		}
	}
	return errors.New(strings.Join(words, " "))
}

// applyServer sets the service time and the capacity.
func (f *scenarioFlags) applyServer(s *sim.Scenario, given map[string]bool) error {
	if err := f.applyServiceTime(s, given); err != nil {
		return err
	}
	if !given["capacity"] {
		return nil
	}
	if !(f.capacity > 0 && f.capacity <= 1e9) {
		return fmt.Errorf("-capacity is %v, want more than 0 per second", f.capacity)
	}
	if !given["service"] && !given["p50"] {
		s.Server.Servers, s.Server.Service = 1, sim.Exponential(time.Duration(float64(time.Second)/f.capacity))
		return nil
	}
	mean := s.Server.Service.Mean()
	if s.Server.Servers = int(math.Round(f.capacity * mean.Seconds())); s.Server.Servers < 1 {
		return fmt.Errorf("-capacity is %v, want at least %.3g for a mean service time of %v", f.capacity, 1/mean.Seconds(), mean)
	}
	return nil
}

// applyServiceTime sets the distribution of the service time.
func (f *scenarioFlags) applyServiceTime(s *sim.Scenario, given map[string]bool) (err error) {
	switch {
	case given["p50"] != given["p99"]:
		return errors.New("-p50 and -p99 belong together")
	case given["p50"] && given["service"]:
		return errors.New("want -service, or -p50 and -p99")
	case given["p50"]:
		s.Server.Service, err = sim.LogNormal(f.p50, f.p99)
	case given["service"] && f.service < 0:
		return fmt.Errorf("-service is %v, want 0 or more", f.service)
	case given["service"]:
		s.Server.Service = sim.Exponential(f.service)
	}
	return err
}

// trafficFlags are the flags that say when calls begin. At most one may be set.
var trafficFlags = []string{"rate", "load", "every", "users", "trace"}

// applyTraffic sets when calls begin.
func (f *scenarioFlags) applyTraffic(s *sim.Scenario, given map[string]bool) error {
	kinds := slices.DeleteFunc(slices.Clone(trafficFlags), func(name string) bool { return !given[name] })
	if len(kinds) > 1 {
		return fmt.Errorf("-%s exclude one another", strings.Join(kinds, " and -"))
	}
	if given["think"] && !given["trace"] {
		s.Think = f.think
	}
	if len(kinds) == 0 {
		return nil
	}
	s.Rate, s.Every, s.Users, s.Trace = 0, 0, 0, nil
	if kinds[0] != "users" {
		s.Calls = 0
	}
	switch kinds[0] {
	case "rate":
		s.Rate = f.rate
	case "every":
		s.Every = f.every
	case "users":
		s.Users = f.users
	case "trace":
		return f.applyTrace(s, given)
	case "load":
		if !(f.load > 0) || math.IsInf(s.Server.Capacity(), 1) {
			return fmt.Errorf("-load is %v, want a share above 0 of a capacity", f.load)
		}
		s.Rate = f.load * s.Server.Capacity()
	}
	return nil
}

// applyTrace reads recorded traffic. The horizon is a minute after its end,
// unless -horizon is set.
func (f *scenarioFlags) applyTrace(s *sim.Scenario, given map[string]bool) error {
	file, err := os.Open(f.trace)
	if err != nil {
		return err
	}
	defer file.Close()
	if s.Trace, err = sim.ParseTrace(file); err != nil {
		return fmt.Errorf("%s: %w", f.trace, err)
	}
	if last := s.Trace[len(s.Trace)-1]; !given["horizon"] {
		s.Horizon = (last.At + last.For + time.Minute).Truncate(time.Second)
	}
	return nil
}

// conditions describes a scenario in one line.
func conditions(s *sim.Scenario) string {
	parts := []string{traffic(s)}
	if n := s.Processes; n > 1 {
		parts = append(parts, fmt.Sprintf("%d processes", n))
	}
	if s.Layers > 1 {
		parts = append(parts, fmt.Sprintf("%d layers", s.Layers))
	}
	if c := s.Server.Capacity(); !math.IsInf(c, 1) {
		parts = append(parts, fmt.Sprintf("capacity %.4g/s", c))
	}
	if v := s.Server; v.Rate > 0 {
		parts = append(parts, fmt.Sprintf("limit %.4g/s, burst %d", v.Rate, max(1, v.Burst)))
	}
	if s.Server.Limit > 0 {
		parts = append(parts, fmt.Sprintf("queue %d", s.Server.Limit))
	}
	if s.Server.Throttles {
		parts = append(parts, "rejections say too much")
	}
	if s.Server.RetryAfter > 0 {
		parts = append(parts, fmt.Sprintf("rejections ask for %v", s.Server.RetryAfter))
	}
	if s.Timeout > 0 {
		parts = append(parts, fmt.Sprintf("attempt timeout %v", s.Timeout))
	}
	if s.Deadline > 0 {
		parts = append(parts, fmt.Sprintf("deadline %v", s.Deadline))
	}
	if s.Server.Errors > 0 {
		parts = append(parts, fmt.Sprintf("%.3g %% errors", 100*s.Server.Errors))
	}
	if f := fault(s); f != "" {
		parts = append(parts, fmt.Sprintf("%s for %v", f, s.Fault.For))
	}
	return strings.Join(parts, ", ")
}

// traffic describes when calls begin.
func traffic(s *sim.Scenario) string {
	switch {
	case s.Failed && s.Trace != nil:
		return fmt.Sprintf("%d clients that failed together", s.Trace[0].Count)
	case s.Trace != nil:
		return "recorded traffic"
	case s.Calls > 0:
		return fmt.Sprintf("%d calls by %d users", s.Calls, s.Users)
	case s.Users > 0:
		return fmt.Sprintf("%d users who think for %v", s.Users, s.Think)
	case s.Every > 0:
		return fmt.Sprintf("a call every %v", s.Every)
	}
	return fmt.Sprintf("%.4g calls/s", s.Rate)
}

// fault describes the fault, and returns "" if there is none.
func fault(s *sim.Scenario) string {
	f := s.Fault
	switch {
	case f.For == 0:
		return ""
	case f.Part > 0:
		return fmt.Sprintf("%.3g %% of it down", 100*f.Part)
	case f.Down:
		return "down"
	case f.Errors > 0:
		return fmt.Sprintf("%.3g %% of attempts fail", 100*f.Errors)
	case f.Capacity > 0:
		return fmt.Sprintf("dip to %.3g %% of capacity", 100*f.Capacity)
	}
	return ""
}
