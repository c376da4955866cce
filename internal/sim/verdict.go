package sim

import (
	"fmt"
	"time"
)

// Check returns what of a result is beyond the gates, a line each; none if it passes.
func (g Gates) Check(r Result) []string {
	var beyond []string
	fail := func(format string, args ...any) {
		beyond = append(beyond, r.Client+": "+fmt.Sprintf(format, args...))
	}
	if a := r.last(r.Amplification); g.MaxAmplification > 0 && a > g.MaxAmplification {
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
	return beyond
}

// Validate names the gate that is out of its range.
func (g Gates) Validate() error {
	switch {
	case !(g.MaxAmplification >= 0):
		return wrong("MaxAmplification", g.MaxAmplification, "0 (for no limit) or more")
	case g.MustRecover < 0:
		return wrong("MustRecover", g.MustRecover, "0 (for no limit) or more")
	case !(g.MinSuccess >= 0 && g.MinSuccess <= 1):
		return wrong("MinSuccess", g.MinSuccess, "0 (for no limit) to 1")
	}
	return nil
}

// last is the figure of the last hop.
func (r *Result) last(hops []Figure) float64 {
	if len(hops) == 0 {
		return 0
	}
	return hops[len(hops)-1].Mean
}

// Verdict says in a line what became of a client.
func Verdict(s Scenario, r Result) string {
	line := fmt.Sprintf("%s: %s; success %.1f %%, amplification %.2fx", r.Client, fate(&s, &r), 100*r.Success.Mean, r.last(r.Amplification))
	if s.Failed {
		return line
	}
	return fmt.Sprintf("%s, at worst %.2fx in a second", line, r.last(r.Peak))
}

func fate(s *Scenario, r *Result) string {
	trouble := trouble(s)
	switch {
	case s.Failed:
		return served(s, r)
	case trouble == "":
		return "no fault"
	case r.Never == r.Seeds:
		return "never recovers from " + trouble
	case r.Never > 0:
		return fmt.Sprintf("does not recover from %s in %d of %d seeds", trouble, r.Never, r.Seeds)
	}
	return fmt.Sprintf("recovers from %s in %.1f s", trouble, r.Recovery.Mean)
}

// served is what became of calls that had failed together.
func served(s *Scenario, r *Result) string {
	calls := fmt.Sprintf("%d calls that had failed together", s.Trace.calls())
	if s.Fault.For > 0 {
		calls += ", in " + trouble(s)
	}
	if missing := r.Lost.Mean + r.Unfinished.Mean; missing > 0 {
		return fmt.Sprintf("does not answer %.0f of %s", missing, calls)
	}
	return fmt.Sprintf("answers all %s, the last after %.1f s", calls, r.Drain.Mean)
}

// trouble describes the fault, with the load it meets.
func trouble(s *Scenario) string {
	f := &s.Fault
	var what string
	switch {
	case f.For == 0:
		return ""
	case f.Down:
		what = fmt.Sprintf("an outage of %v", f.For)
	case f.Errors > 0:
		what = fmt.Sprintf("%v of %.0f %% errors", f.For, 100*f.Errors)
	case f.Capacity > 0:
		what = fmt.Sprintf("a %v dip to %.0f %% of capacity", f.For, 100*f.Capacity)
	default:
		return ""
	}
	if load := s.load() / s.Server.Capacity(); load > 0 && !s.Failed {
		what += fmt.Sprintf(" at %.0f %% load", 100*load)
	}
	return what
}
