package sim

import (
	"fmt"
	"time"
)

// Check returns a line for each gate that a result fails. A result without calls
// fails every gate.
func (g Gates) Check(r Result) []string {
	var failures []string
	fail := func(format string, args ...any) {
		failures = append(failures, r.Client+": "+fmt.Sprintf(format, args...))
	}
	if r.Calls == 0 && g != (Gates{}) {
		fail("there was no call to hold against a gate")
		return failures
	}
	if a := lastMean(r.Amplification); g.MaxAmplification > 0 && a > g.MaxAmplification {
		fail("amplification %.2fx > %.2fx", a, g.MaxAmplification)
	}
	switch worst := seconds(r.Slowest); {
	case g.MustRecover <= 0:
	case r.Never > 0:
		fail("never recovers in %d of %d seeds, and must within %v", r.Never, r.Seeds, g.MustRecover)
	case worst > g.MustRecover:
		fail("recovers in up to %v > %v", worst.Round(100*time.Millisecond), g.MustRecover)
	}
	if g.MinSuccess > 0 && r.Success.Mean < g.MinSuccess {
		fail("success %.2f %% < %.2f %%", 100*r.Success.Mean, 100*g.MinSuccess)
	}
	return failures
}

// Validate returns an error that names a gate that is out of its range, or nil.
func (g Gates) Validate() error {
	return checkAll([]check{
		{g.MaxAmplification >= 0, "-max-amplification", g.MaxAmplification, "0 (for no limit) or more"},
		{g.MustRecover >= 0, "-must-recover", g.MustRecover, "0 (for no limit) or more"},
		{within(g.MinSuccess, 1), "-min-success", g.MinSuccess, "0 (for no limit) to 1"},
	})
}

// lastMean returns the mean of the last hop, and 0 if there are no hops.
func lastMean(hops []Figure) float64 {
	if len(hops) == 0 {
		return 0
	}
	return hops[len(hops)-1].Mean
}

// Verdict says in one line whether the service recovers with a client, and at
// which cost.
func Verdict(s Scenario, r Result) string {
	if r.Calls == 0 {
		return r.Client + ": there were no calls"
	}
	line := fmt.Sprintf("%s: %s; success %.1f %%, amplification %.2fx", r.Client, outcome(&s, &r),
		100*r.Success.Mean, lastMean(r.Amplification))
	if s.Failed || s.Calls > 0 {
		return line
	}
	return fmt.Sprintf("%s, at worst %.2fx in a second", line, lastMean(r.Peak))
}

// outcome says whether and when the service recovered.
func outcome(s *Scenario, r *Result) string {
	fault := describeFault(s)
	switch {
	case s.Failed:
		return herdOutcome(s, r)
	case s.Calls > 0:
		return jobOutcome(s, r)
	case fault == "":
		return "no fault"
	case r.Never == r.Seeds:
		return "never recovers from " + fault
	case r.Never > 0:
		return fmt.Sprintf("does not recover from %s in %d of %d seeds", fault, r.Never, r.Seeds)
	}
	return fmt.Sprintf("recovers from %s in %.1f s", fault, r.Recovery.Mean)
}

// herdOutcome says whether and when the calls succeeded that had failed
// together.
func herdOutcome(s *Scenario, r *Result) string {
	calls := fmt.Sprintf("%d calls that had failed together", s.Trace.calls())
	if s.Fault.For > 0 {
		calls += ", in " + describeFault(s)
	}
	if r.Lost.Mean > 0 {
		return fmt.Sprintf("does not answer %.0f of %s", r.Lost.Mean, calls)
	}
	return fmt.Sprintf("answers all %s, the last after %.1f s", calls, r.Drain.Mean)
}

// jobOutcome says how a job went.
func jobOutcome(s *Scenario, r *Result) string {
	least := s.LeastTime().Seconds()
	if r.Lost.Mean > 0 {
		return fmt.Sprintf("fails %.0f of the %d calls of a job that takes %.1f s at the least", r.Lost.Mean,
			s.Calls, least)
	}
	return fmt.Sprintf("does all %d calls in %.1f s, %.2f times the least", s.Calls, r.Drain.Mean, r.Drain.Mean/least)
}

// describeFault describes the fault and the load.
func describeFault(s *Scenario) string {
	f := &s.Fault
	var fault string
	switch {
	case f.For == 0:
		return ""
	case f.Part > 0:
		fault = fmt.Sprintf("an outage of %v of %.3g %% of the service", f.For, 100*f.Part)
	case f.Down:
		fault = fmt.Sprintf("an outage of %v", f.For)
	case f.Errors > 0:
		fault = fmt.Sprintf("%v of %.0f %% errors", f.For, 100*f.Errors)
	case f.Capacity > 0:
		fault = fmt.Sprintf("a %v dip to %.0f %% of capacity", f.For, 100*f.Capacity)
	default:
		return ""
	}
	if load := s.load() / s.Server.Capacity(); load > 0 && !s.Failed {
		fault += fmt.Sprintf(" at %.0f %% load", 100*load)
	}
	return fault
}
