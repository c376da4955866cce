package sim

import (
	"fmt"
	"math"
	"time"
)

// Bounds of what can be simulated on one machine.
const (
	mostProcesses = 1_000_000
	mostLayers    = 32
	mostUsers     = 10_000_000
	mostServers   = 1_000_000
)

// Validate names the field that is out of its range, with its value, or returns nil. [Compare]
// calls it by itself.
func (s Scenario) Validate() error {
	for _, check := range []func() error{s.checkTraffic, s.checkFleet, s.checkServer, s.checkFault, s.checkTimes} {
		if err := check(); err != nil {
			return fmt.Errorf("scenario: %w", err)
		}
	}
	return nil
}

func (s *Scenario) checkTraffic() error {
	kinds := 0
	for _, given := range []bool{s.Rate != 0, s.Every != 0, s.Users != 0, s.Trace != nil} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("%d of Rate, Every, Users and Trace are given, want one", kinds)
	case s.Rate != 0 && !(s.Rate > 0 && s.Rate <= mostCalls):
		return wrong("Rate", s.Rate, fmt.Sprintf("more than 0 calls per second, and at most %d", mostCalls))
	case s.Every < 0:
		return wrong("Every", s.Every, "more than 0")
	case s.Users < 0 || s.Users > mostUsers:
		return wrong("Users", s.Users, fmt.Sprintf("1 to %d", mostUsers))
	case s.Think < 0:
		return wrong("Think", s.Think, "0 or more")
	case s.Users == 0 && s.load()*s.until().Seconds() > mostCalls:
		return fmt.Errorf("%.3g calls per second for %v are more than %d calls", s.load(), s.until(), mostCalls)
	}
	return s.checkTrace()
}

func (s *Scenario) checkTrace() error {
	if s.Trace != nil && s.Trace.calls() == 0 {
		return wrong("Trace", "empty", "calls")
	}
	for i, a := range s.Trace {
		if a.At < 0 || a.For < 0 || a.Count < 0 || i > 0 && a.At < s.Trace[i-1].At+s.Trace[i-1].For {
			return wrong(fmt.Sprintf("Trace[%d]", i), a, "times that ascend and do not overlap, and 0 calls or more")
		}
	}
	return nil
}

func (s *Scenario) checkFleet() error {
	switch {
	case s.Processes < 0 || s.Processes > mostProcesses:
		return wrong("Processes", s.Processes, fmt.Sprintf("0 to %d", mostProcesses))
	case s.Layers < 0 || s.Layers > mostLayers:
		return wrong("Layers", s.Layers, fmt.Sprintf("0 to %d", mostLayers))
	}
	for name, d := range map[string]time.Duration{"Timeout": s.Timeout, "Deadline": s.Deadline, "Delay": s.Delay, "DelaySD": s.DelaySD} {
		if d < 0 {
			return wrong(name, d, "0 or more")
		}
	}
	return nil
}

func (s *Scenario) checkServer() error {
	v := &s.Server
	switch {
	case v.Servers < 0 || v.Servers > mostServers:
		return wrong("Server.Servers", v.Servers, fmt.Sprintf("0 to %d", mostServers))
	case v.Service.Mean() < 0:
		return wrong("Server.Service", v.Service.Mean(), "a mean of 0 or more")
	case v.Limit < 0:
		return wrong("Server.Limit", v.Limit, "0 or more")
	case !(v.RejectCost >= 0 && v.RejectCost <= math.MaxInt32):
		return wrong("Server.RejectCost", v.RejectCost, "0 or more")
	case v.RetryAfter < 0:
		return wrong("Server.RetryAfter", v.RetryAfter, "0 or more")
	case !(v.Errors >= 0 && v.Errors <= 1):
		return wrong("Server.Errors", v.Errors, "0 to 1")
	}
	return nil
}

func (s *Scenario) checkFault() error {
	f := &s.Fault
	switch {
	case f.From < 0:
		return wrong("Fault.From", f.From, "0 or more")
	case f.For < 0:
		return wrong("Fault.For", f.For, "0 or more")
	case f.From > 0 && f.end() >= s.Horizon:
		return wrong("Fault.From + Fault.For", f.end(), fmt.Sprintf("less than the Horizon of %v", s.Horizon))
	case !(f.Capacity >= 0 && f.Capacity <= 1):
		return wrong("Fault.Capacity", f.Capacity, "0 (for all of it) to 1")
	case !(f.Errors >= 0 && f.Errors <= 1):
		return wrong("Fault.Errors", f.Errors, "0 to 1")
	}
	return nil
}

func (s *Scenario) checkTimes() error {
	switch {
	case s.Horizon <= 0 || s.Horizon > 30*24*time.Hour:
		return wrong("Horizon", s.Horizon, "more than 0, and at most 720h")
	case s.Until < 0:
		return wrong("Until", s.Until, "0 or more")
	case s.From < 0 || s.To < 0 || s.To > 0 && s.To <= s.From:
		return wrong("From and To", [2]time.Duration{s.From, s.To}, "0 <= From < To")
	case !(s.Recovered >= 0 && s.Recovered <= 1):
		return wrong("Recovered", s.Recovered, "0 (for 0.9) to 1")
	case s.RecoveredFor < 0:
		return wrong("RecoveredFor", s.RecoveredFor, "0 (for 5s) or more")
	}
	return nil
}

func wrong(field string, value any, want string) error {
	return fmt.Errorf("%s is %v, want %s", field, value, want)
}
