package sim

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// The limits of what one machine can simulate.
const (
	maxProcesses = 1_000_000
	maxLayers    = 32
	maxUsers     = 10_000_000
	maxServers   = 1_000_000
	maxHorizon   = 30 * 24 * time.Hour
)

// Validate returns an error that says what is out of its range, or nil. It names
// fields as the flags of backoffsim do. [Compare] calls Validate itself.
func (s Scenario) Validate() error {
	if kinds := s.trafficKinds(); kinds != 1 {
		return fmt.Errorf("%d of -rate, -every, -users and -trace are given, want one", kinds)
	}
	v, f := &s.Server, &s.Fault
	if err := checkAll([]check{
		{s.Rate == 0 || s.Rate > 0 && s.Rate <= maxCalls, "-rate", s.Rate, fmt.Sprint("more than 0 calls per second, and at most ", maxCalls)},
		{s.Every >= 0, "-every", s.Every, "more than 0"},
		{within(s.Users, maxUsers), "-users", s.Users, fmt.Sprint("1 to ", maxUsers)},
		{s.Calls >= 0 && (s.Calls == 0 || s.Users > 0), "-calls", s.Calls, "0 (for no limit) or more, and only with -users"},
		{s.Think >= 0, "-think", s.Think, "0 or more"},
	}); err != nil {
		return err
	}
	if s.Users == 0 && s.load()*s.until().Seconds() > maxCalls {
		return fmt.Errorf("%.3g calls per second for %v are more than %d calls", s.load(), s.until(), maxCalls)
	}
	if err := s.checkTrace(); err != nil {
		return err
	}
	return checkAll([]check{
		{within(s.Processes, maxProcesses), "-processes", s.Processes, fmt.Sprint("0 to ", maxProcesses)},
		{within(s.Layers, maxLayers), "-layers", s.Layers, fmt.Sprint("0 to ", maxLayers)},
		{s.Timeout >= 0, "-timeout", s.Timeout, "0 or more"},
		{s.Deadline >= 0, "-deadline", s.Deadline, "0 or more"},
		{s.Delay >= 0, "-delay", s.Delay, "0 or more"},
		{s.DelaySD >= 0, "-delay-sd", s.DelaySD, "0 or more"},

		{within(v.Servers, maxServers), "Server.Servers", v.Servers, fmt.Sprint("0 to ", maxServers)},
		{v.Service.Mean() >= 0, "-service", v.Service.Mean(), "a mean of 0 or more"},
		{v.Limit >= 0, "-queue", v.Limit, "0 or more"},
		{within(v.Rate, maxCalls), "-limit", v.Rate, "0 (for no limit) or more"},
		{v.Burst >= 0, "-burst", v.Burst, "0 (for 1) or more"},
		{within(v.RejectCost, math.MaxInt32), "-reject-cost", v.RejectCost, "0 or more"},
		{v.RetryAfter >= 0, "-retry-after", v.RetryAfter, "0 or more"},
		{within(v.Errors, 1), "-errors", v.Errors, "0 to 1"},

		{f.From >= 0, "-fault-at", f.From, "0 or more"},
		{f.For >= 0, "-fault", f.For, "0 or more"},
		{f.From == 0 || f.end() < s.Horizon, "-fault-at + -fault", f.end(), fmt.Sprintf("less than the -horizon of %v", s.Horizon)},
		{within(f.Capacity, 1), "-depth", f.Capacity, "0 (for all of it) to 1"},
		{within(f.Errors, 1), "-fault-errors", f.Errors, "0 to 1"},
		{within(f.Part, 1) && (f.Part == 0 || f.Down), "-part", f.Part, "0 (for all of it) to 1, with -down"},

		{s.Horizon > 0 && s.Horizon <= maxHorizon, "-horizon", s.Horizon, "more than 0, and at most 720h"},
		{s.Until >= 0, "Until", s.Until, "0 or more"},
		{s.From >= 0 && s.To >= 0 && (s.To == 0 || s.To > s.From), "From and To", [2]time.Duration{s.From, s.To}, "0 <= From < To"},
		{within(s.Recovered, 1), "Recovered", s.Recovered, "0 (for 0.9) to 1"},
	})
}

// A check is whether a field is in its range, and what the range is.
type check struct {
	ok    bool
	field string
	value any
	want  string
}

// checkAll returns an error for the first field that is not in its range.
func checkAll(checks []check) error {
	for _, c := range checks {
		if !c.ok {
			return fmt.Errorf("%s is %v, want %s", c.field, c.value, c.want)
		}
	}
	return nil
}

// within reports whether x is from 0 to most, and a number.
func within[T int | float64](x, most T) bool { return x >= 0 && x <= most }

// trafficKinds returns how many of the fields are set that say when calls
// begin.
func (s *Scenario) trafficKinds() (kinds int) {
	for _, given := range []bool{s.Rate != 0, s.Every != 0, s.Users != 0, s.Trace != nil} {
		if given {
			kinds++
		}
	}
	return kinds
}

func (s *Scenario) checkTrace() error {
	if s.Trace != nil && s.Trace.calls() == 0 {
		return errors.New("-trace is empty, want calls")
	}
	for i, a := range s.Trace {
		if a.At < 0 || a.For < 0 || a.Count < 0 || i > 0 && a.At < s.Trace[i-1].At+s.Trace[i-1].For {
			return fmt.Errorf("-trace, line %d is %v, want times that ascend and do not overlap, and 0 calls or more", i+1, a)
		}
	}
	return nil
}
