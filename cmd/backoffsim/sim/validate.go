package sim

import (
	"cmp"
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

// Validate returns an error that says what is out of its range, or nil. It names
// fields as the flags of backoffsim do. [Compare] calls Validate itself.
func (s Scenario) Validate() error {
	return cmp.Or(s.checkTraffic(), s.checkFleet(), s.checkServer(), s.checkFault(), s.checkTimes())
}

func (s *Scenario) checkTraffic() error {
	switch kinds := s.trafficKinds(); {
	case kinds != 1:
		return fmt.Errorf("%d of -rate, -every, -users and -trace are given, want one", kinds)
	case s.Rate != 0 && !(s.Rate > 0 && s.Rate <= maxCalls):
		return outOfRange("-rate", s.Rate, fmt.Sprintf("more than 0 calls per second, and at most %d", maxCalls))
	case s.Every < 0:
		return outOfRange("-every", s.Every, "more than 0")
	case s.Users < 0 || s.Users > maxUsers:
		return outOfRange("-users", s.Users, fmt.Sprintf("1 to %d", maxUsers))
	case s.Calls < 0 || s.Calls > 0 && s.Users == 0:
		return outOfRange("-calls", s.Calls, "0 (for no limit) or more, and only with -users")
	case s.Think < 0:
		return outOfRange("-think", s.Think, "0 or more")
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
		return outOfRange("-trace", "empty", "calls")
	}
	for i, a := range s.Trace {
		if a.At < 0 || a.For < 0 || a.Count < 0 || i > 0 && a.At < s.Trace[i-1].At+s.Trace[i-1].For {
			return outOfRange(fmt.Sprintf("-trace, line %d", i+1), a,
				"times that ascend and do not overlap, and 0 calls or more")
		}
	}
	return nil
}

func (s *Scenario) checkFleet() error {
	switch {
	case s.Processes < 0 || s.Processes > maxProcesses:
		return outOfRange("-processes", s.Processes, fmt.Sprintf("0 to %d", maxProcesses))
	case s.Layers < 0 || s.Layers > maxLayers:
		return outOfRange("-layers", s.Layers, fmt.Sprintf("0 to %d", maxLayers))
	}
	for name, d := range map[string]time.Duration{"-timeout": s.Timeout, "-deadline": s.Deadline,
		"-delay": s.Delay, "-delay-sd": s.DelaySD} {
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
		return outOfRange("-service", v.Service.Mean(), "a mean of 0 or more")
	case v.Limit < 0:
		return outOfRange("-queue", v.Limit, "0 or more")
	case !(v.Rate >= 0 && v.Rate <= maxCalls):
		return outOfRange("-limit", v.Rate, "0 (for no limit) or more")
	case v.Burst < 0:
		return outOfRange("-burst", v.Burst, "0 (for 1) or more")
	case !(v.RejectCost >= 0 && v.RejectCost <= math.MaxInt32):
		return outOfRange("-reject-cost", v.RejectCost, "0 or more")
	case v.RetryAfter < 0:
		return outOfRange("-retry-after", v.RetryAfter, "0 or more")
	case !(v.Errors >= 0 && v.Errors <= 1):
		return outOfRange("-errors", v.Errors, "0 to 1")
	}
	return nil
}

func (s *Scenario) checkFault() error {
	f := &s.Fault
	switch {
	case f.From < 0:
		return outOfRange("-fault-at", f.From, "0 or more")
	case f.For < 0:
		return outOfRange("-fault", f.For, "0 or more")
	case f.From > 0 && f.end() >= s.Horizon:
		return outOfRange("-fault-at + -fault", f.end(), fmt.Sprintf("less than the -horizon of %v", s.Horizon))
	case !(f.Capacity >= 0 && f.Capacity <= 1):
		return outOfRange("-depth", f.Capacity, "0 (for all of it) to 1")
	case !(f.Errors >= 0 && f.Errors <= 1):
		return outOfRange("-fault-errors", f.Errors, "0 to 1")
	case !(f.Part >= 0 && f.Part <= 1) || f.Part > 0 && !f.Down:
		return outOfRange("-part", f.Part, "0 (for all of it) to 1, with -down")
	}
	return nil
}

func (s *Scenario) checkTimes() error {
	switch {
	case s.Horizon <= 0 || s.Horizon > 30*24*time.Hour:
		return outOfRange("-horizon", s.Horizon, "more than 0, and at most 720h")
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
