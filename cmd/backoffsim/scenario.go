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

// scenarioFlags are the flags that change a scenario. Most of them set a field,
// whose value is their default.
type scenarioFlags struct {
	*sim.Scenario
	set               *flag.FlagSet
	load, capacity    float64
	trace             string
	service, p50, p99 time.Duration
}

// define defines the flags for a scenario.
func (f *scenarioFlags) define(set *flag.FlagSet, s *sim.Scenario) {
	f.Scenario, f.set = s, set
	number := func(at *float64, name, usage string) { set.Float64Var(at, name, *at, usage) }
	count := func(at *int, name, usage string) { set.IntVar(at, name, *at, usage) }
	span := func(at *time.Duration, name, usage string) { set.DurationVar(at, name, *at, usage) }
	check := func(at *bool, name, usage string) { set.BoolVar(at, name, *at, usage) }
	v, fault := &s.Server, &s.Fault

	number(&s.Rate, "rate", "calls per second of all users, at random, a `number`")
	number(&f.load, "load", "instead of -rate: calls as a `share` of capacity, such as 0.8")
	span(&s.Every, "every", "instead of -rate: calls exactly this `time` apart")
	count(&s.Users, "users", "instead of -rate: a `number` of users who each call, wait for the answer, and think")
	span(&s.Think, "think", "the mean `time` that users think")
	count(&s.Calls, "calls", "with -users: a `number` of calls that they make together, as in a job; 0 means no limit")
	set.StringVar(&f.trace, "trace", "",
		"instead of -rate: a CSV `file` of recorded traffic: lines of t,count, or of the time of a call")

	f.service, v.Burst = v.Service.Mean(), max(1, v.Burst)
	number(&f.capacity, "capacity", "how many attempts the service can serve per second, a `number`")
	span(&f.service, "service", "the mean `time` that the service takes, exponential")
	span(&f.p50, "p50", "instead of -service: the median `time` that the service takes")
	span(&f.p99, "p99", "with -p50: the `time` that 99 of 100 answers stay below; log-normal")
	count(&v.Limit, "queue", "the `number` of attempts that may wait or be served; 0 means no limit")
	number(&v.Rate, "limit",
		"the `number` of attempts per second that the service accepts; to others it answers \"too much\"; 0 means no limit")
	count(&v.Burst, "burst", "with -limit: the `number` of attempts that it accepts at once after a pause")
	check(&v.Throttles, "throttles", "the service answers \"too much\" when its -queue is full, or when it is -down")
	check(&v.DropExpired, "drop-expired", "the service drops attempts whose client has given up")
	number(&v.RejectCost, "reject-cost", "what a rejection costs the service, as a `share` of the service time")
	span(&v.RetryAfter, "retry-after", "the `time` that rejections and failures ask the client to wait")
	number(&v.Errors, "errors", "the `share` of attempts that fail at any time")

	s.Processes, s.Layers = max(1, s.Processes), max(1, s.Layers)
	span(&s.Timeout, "timeout", "the longest `time` of an attempt at the service; 0 means no limit")
	span(&s.Deadline, "deadline", "the longest `time` of a call; 0 means no limit")
	span(&s.Delay, "delay", "the one-way `time` on the network")
	span(&s.DelaySD, "delay-sd", "the standard deviation of -delay, a `time`")
	count(&s.Processes, "processes",
		"the `number` of client processes in each layer, each with budgets and breakers of its own")
	count(&s.Layers, "layers", "the `number` of layers that each retry")

	span(&fault.From, "fault-at", "when the fault begins, a `time`")
	span(&fault.For, "fault", "how long the fault lasts, a `time`; 0 means that there is none")
	number(&fault.Capacity, "depth", "the `share` of its capacity that the service has left in the fault; 0 means all")
	number(&fault.Errors, "fault-errors", "the `share` of attempts that fail in the fault")
	check(&fault.Down, "down", "the service refuses everything in the fault")
	number(&fault.Part, "part",
		"with -down: the `share` of the calls that need the part of the service that is down; 0 means all")
	span(&s.Horizon, "horizon", "the `time` that is simulated")
}

// given reports which flags the user has set.
func (f *scenarioFlags) given() map[string]bool {
	all := map[string]bool{}
	f.set.Visit(func(g *flag.Flag) { all[g.Name] = true })
	return all
}

// apply completes the scenario by the flags that are no fields, and checks it.
func (f *scenarioFlags) apply() error {
	given := f.given()
	if err := f.applyServer(given); err != nil {
		return err
	}
	if err := f.applyTraffic(given); err != nil {
		return err
	}
	if f.Fault.For == 0 {
		f.Fault = sim.Fault{}
	}
	if err := checkTrace(f.Scenario); err != nil {
		return err
	}
	return f.Validate()
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

// applyServer sets the service time and the capacity.
func (f *scenarioFlags) applyServer(given map[string]bool) error {
	if err := f.applyServiceTime(given); err != nil {
		return err
	}
	if !given["capacity"] {
		return nil
	}
	if !(f.capacity > 0 && f.capacity <= 1e9) {
		return fmt.Errorf("-capacity is %v, want more than 0 per second", f.capacity)
	}
	if !given["service"] && !given["p50"] {
		f.Server.Servers, f.Server.Service = 1, sim.Exponential(time.Duration(float64(time.Second)/f.capacity))
		return nil
	}
	mean := f.Server.Service.Mean()
	if f.Server.Servers = int(math.Round(f.capacity * mean.Seconds())); f.Server.Servers < 1 {
		return fmt.Errorf("-capacity is %v, want at least %.3g for a mean service time of %v", f.capacity,
			1/mean.Seconds(), mean)
	}
	return nil
}

// applyServiceTime sets the distribution of the service time.
func (f *scenarioFlags) applyServiceTime(given map[string]bool) (err error) {
	switch {
	case given["p50"] != given["p99"]:
		return errors.New("-p50 and -p99 belong together")
	case given["p50"] && given["service"]:
		return errors.New("want -service, or -p50 and -p99")
	case given["p50"]:
		f.Server.Service, err = sim.LogNormal(f.p50, f.p99)
	case given["service"] && f.service < 0:
		return fmt.Errorf("-service is %v, want 0 or more", f.service)
	case given["service"]:
		f.Server.Service = sim.Exponential(f.service)
	}
	return err
}

// trafficFlags are the flags that say when calls begin. At most one may be set.
var trafficFlags = []string{"rate", "load", "every", "users", "trace"}

// applyTraffic sets when calls begin.
func (f *scenarioFlags) applyTraffic(given map[string]bool) error {
	kinds := slices.DeleteFunc(slices.Clone(trafficFlags), func(name string) bool { return !given[name] })
	if len(kinds) > 1 {
		return fmt.Errorf("-%s exclude one another", strings.Join(kinds, " and -"))
	}
	if len(kinds) == 0 {
		return nil
	}
	kind := kinds[0]
	if kind != "rate" {
		f.Rate = 0
	}
	if kind != "every" {
		f.Every = 0
	}
	if kind != "users" {
		f.Users = 0
		if !given["calls"] {
			f.Calls = 0
		}
	}
	f.Trace = nil
	switch kind {
	case "trace":
		return f.applyTrace(given)
	case "load":
		if !(f.load > 0) || math.IsInf(f.Server.Capacity(), 1) {
			return fmt.Errorf("-load is %v, want a share above 0 of a capacity", f.load)
		}
		f.Rate = f.load * f.Server.Capacity()
	}
	return nil
}

// applyTrace reads recorded traffic. The horizon is a minute after its end,
// unless -horizon is set.
func (f *scenarioFlags) applyTrace(given map[string]bool) error {
	file, err := os.Open(f.trace)
	if err != nil {
		return err
	}
	defer file.Close()
	if f.Trace, err = sim.ParseTrace(file); err != nil {
		return fmt.Errorf("%s: %w", f.trace, err)
	}
	if last := f.Trace[len(f.Trace)-1]; !given["horizon"] {
		f.Horizon = (last.At + last.For + time.Minute).Truncate(time.Second)
	}
	return nil
}

// conditions describes a scenario in one line.
func conditions(s *sim.Scenario) string {
	parts := []string{traffic(s)}
	add := func(there bool, format string, args ...any) {
		if there {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	v, f, capacity := &s.Server, fault(s), s.Server.Capacity()
	add(s.Processes > 1, "%d processes", s.Processes)
	add(s.Layers > 1, "%d layers", s.Layers)
	add(!math.IsInf(capacity, 1), "capacity %.4g/s", capacity)
	add(v.Rate > 0, "limit %.4g/s, burst %d", v.Rate, max(1, v.Burst))
	add(v.Limit > 0, "queue %d", v.Limit)
	add(v.Throttles, "rejections say too much")
	add(v.RetryAfter > 0, "rejections ask for %v", v.RetryAfter)
	add(s.Timeout > 0, "attempt timeout %v", s.Timeout)
	add(s.Deadline > 0, "deadline %v", s.Deadline)
	add(v.Errors > 0, "%.3g %% errors", 100*v.Errors)
	add(f != "", "%s for %v", f, s.Fault.For)
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
