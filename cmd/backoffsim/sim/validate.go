package sim

import (
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
)

// Validate returns an error that names a field that is out of its range and its
// value, or nil. [Compare] calls Validate itself.
func (s Scenario) Validate() error {
	for _, check := range []func() error{s.checkTraffic, s.checkFleet, s.checkServer, s.checkFault, s.checkTimes} {
		if err := check(); err != nil {
			return fmt.Errorf("scenario: %w", err)
		}
	}
	return nil
}

func (s *Scenario) checkTraffic() error {
	switch kinds := s.trafficKinds(); {
	case kinds != 1:
		return fmt.Errorf("%d of Rate, Every, Users and Trace are given, want one", kinds)
	case s.Rate != 0 && !(s.Rate > 0 && s.Rate <= maxCalls):
		return outOfRange("Rate", s.Rate, fmt.Sprintf("more than 0 calls per second, and at most %d", maxCalls))
	case s.Every < 0:
		return outOfRange("Every", s.Every, "more than 0")
	case s.Users < 0 || s.Users > maxUsers:
		return outOfRange("Users", s.Users, fmt.Sprintf("1 to %d", maxUsers))
	case s.Calls < 0 || s.Calls > 0 && s.Users == 0:
		return outOfRange("Calls", s.Calls, "0 (for no limit) or more, and only with Users")
	case s.Think < 0:
		return outOfRange("Think", s.Think, "0 or more")
	case s.Users == 0 && s.load()*s.until().Seconds() > maxCalls:
		return fmt.Errorf("%.3g calls per second for %v are more than %d calls", s.load(), s.until(), maxCalls)
	}
	return s.checkTrace()
}

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
		return outOfRange("Trace", "empty", "calls")
	}
	for i, a := range s.Trace {
		if a.At < 0 || a.For < 0 || a.Count < 0 || i > 0 && a.At < s.Trace[i-1].At+s.Trace[i-1].For {
			return outOfRange(fmt.Sprintf("Trace[%d]", i), a, "times that ascend and do not overlap, and 0 calls or more")
		}
	}
	return nil
}

func (s *Scenario) checkFleet() error {
	switch {
	case s.Processes < 0 || s.Processes > maxProcesses:
		return outOfRange("Processes", s.Processes, fmt.Sprintf("0 to %d", maxProcesses))
	case s.Layers < 0 || s.Layers > maxLayers:
		return outOfRange("Layers", s.Layers, fmt.Sprintf("0 to %d", maxLayers))
	}
	for name, d := range map[string]time.Duration{"Timeout": s.Timeout, "Deadline": s.Deadline, "Delay": s.Delay, "DelaySD": s.DelaySD} {
		if d < 0 {
			return outOfRange(name, d, "0 or more")
		}
	}
	return nil
}

func (s *Scenario) checkServer() error {
	v := &s.Server
	switch {
	case v.Servers < 0 || v.Servers > maxServers:
		return outOfRange("Server.Servers", v.Servers, fmt.Sprintf("0 to %d", maxServers))
	case v.Service.Mean() < 0:
		return outOfRange("Server.Service", v.Service.Mean(), "a mean of 0 or more")
	case v.Limit < 0:
		return outOfRange("Server.Limit", v.Limit, "0 or more")
	case !(v.Rate >= 0 && v.Rate <= maxCalls):
		return outOfRange("Server.Rate", v.Rate, "0 (for no limit) or more")
	case v.Burst < 0:
		return outOfRange("Server.Burst", v.Burst, "0 (for 1) or more")
	case !(v.RejectCost >= 0 && v.RejectCost <= math.MaxInt32):
		return outOfRange("Server.RejectCost", v.RejectCost, "0 or more")
	case v.RetryAfter < 0:
		return outOfRange("Server.RetryAfter", v.RetryAfter, "0 or more")
	case !(v.Errors >= 0 && v.Errors <= 1):
		return outOfRange("Server.Errors", v.Errors, "0 to 1")
	}
	return nil
}

func (s *Scenario) checkFault() error {
	f := &s.Fault
	switch {
	case f.From < 0:
		return outOfRange("Fault.From", f.From, "0 or more")
	case f.For < 0:
		return outOfRange("Fault.For", f.For, "0 or more")
	case f.From > 0 && f.end() >= s.Horizon:
		return outOfRange("Fault.From + Fault.For", f.end(), fmt.Sprintf("less than the Horizon of %v", s.Horizon))
	case !(f.Capacity >= 0 && f.Capacity <= 1):
		return outOfRange("Fault.Capacity", f.Capacity, "0 (for all of it) to 1")
	case !(f.Errors >= 0 && f.Errors <= 1):
		return outOfRange("Fault.Errors", f.Errors, "0 to 1")
	case !(f.Part >= 0 && f.Part <= 1) || f.Part > 0 && !f.Down:
		return outOfRange("Fault.Part", f.Part, "0 (for all of it) to 1, with Fault.Down")
	}
	return nil
}

func (s *Scenario) checkTimes() error {
	switch {
	case s.Horizon <= 0 || s.Horizon > 30*24*time.Hour:
		return outOfRange("Horizon", s.Horizon, "more than 0, and at most 720h")
	case s.Until < 0:
		return outOfRange("Until", s.Until, "0 or more")
	case s.From < 0 || s.To < 0 || s.To > 0 && s.To <= s.From:
		return outOfRange("From and To", [2]time.Duration{s.From, s.To}, "0 <= From < To")
	case !(s.Recovered >= 0 && s.Recovered <= 1):
		return outOfRange("Recovered", s.Recovered, "0 (for 0.9) to 1")
	case s.RecoveredFor < 0:
		return outOfRange("RecoveredFor", s.RecoveredFor, "0 (for 5s) or more")
	}
	return nil
}

// outOfRange returns an error that says what a field is and what it should be.
func outOfRange(field string, value any, want string) error {
	return fmt.Errorf("%s is %v, want %s", field, value, want)
}
