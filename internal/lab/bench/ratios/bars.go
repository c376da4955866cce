package main

import "fmt"

// A bar is a promise: how much, at most, a candidate may cost. Where it is
// measured against the floor, allocations may never be more than the floor's.
type bar struct {
	unit  string
	times float64 // at most so many times what it is measured against
	plus  float64 // or, if not 0, at most so much more
	over  string  // the candidate it is measured against; "" means the floor
	in    string  // the scenario of that one; "" means the same
}

func times(most float64) []bar { return []bar{{unit: "ns/op", times: most}} }

// bars are all that was ever promised of this library, by scenario.
var bars = map[string][]bar{
	"DoSuccess/func":       times(2),
	"DoSuccess/closure":    times(2),
	"DoSuccess/configured": times(2),
	"DoValueSuccess":       times(2.5),
	"LoopSuccess":          times(3),
	"Fail3Zero":            times(6),
	"Fail3":                times(1.2),
	"Permanent/new":        times(1.5),
	"Permanent/sentinel":   times(1.5),
	"Delay":                times(1.5),
	"DelayParallel":        append(times(1.5), scales("Delay")),

	"BudgetSuccess":           times(2),
	"BudgetSuccessParallel":   append(times(2), scales("BudgetSuccess")),
	"BudgetBothSides":         times(2),
	"BudgetBothSidesParallel": times(1),
	"BreakerClosed":           times(2),
	"BreakerClosedParallel":   times(2),
	"BreakerOpen":             times(1.5),
	"BreakerShared":           {{unit: "ns/op", plus: 5}},
	"BreakerSharedOpen":       {{unit: "ns/op", plus: 5}},
	"Stack":                   times(3.5),
	"StackParallel":           times(2),
	"Hedge":                   times(1.3),

	"HTTP/get":         times(1.1),
	"HTTP/post-1KiB":   times(1.1),
	"Observed":         {{unit: "ns/op", plus: 15, over: "backoff-unobserved"}},
	"ObservedParallel": {scales("Observed")},
	"ObservedLog":      {{unit: "ns/op", plus: 10, over: "backoff-unobserved"}},

	"Wait100k":  {{unit: "bytes/waiter", times: 1.15}, {unit: "ms-to-release", times: 2}},
	"Size/http": {{unit: "KiB", plus: 92}},
	"Size/bare": {{unit: "KiB", plus: 310}},
}

// scales is the bar of what runs on all processors at once: a call takes no
// longer, by the clock, than on one.
func scales(alone string) bar { return bar{unit: "ns/op", times: 1, over: ours, in: alone} }

// limit returns how much it may be, given what it is measured against.
func (b bar) limit(base float64) float64 {
	if b.plus != 0 {
		return base + b.plus
	}
	return base * b.times
}

// String says it as in "1.5", "+10 over backoff-unobserved" and "1 x Delay".
func (b bar) String() string {
	s := fmt.Sprintf("%g", b.times)
	if b.plus != 0 {
		s = fmt.Sprintf("+%g", b.plus)
	}
	if b.in != "" {
		return s + " x " + b.in
	}
	if b.over != "" {
		return s + " over " + b.over
	}
	return s
}

// A verdict is what became of a bar.
type verdict struct {
	bar    bar
	ran    bool
	missed string // "", or how
}

func (v verdict) String() string {
	switch v.missed {
	case "":
		return "<= " + v.bar.String()
	case "allocs":
		return "allocs MISSED"
	}
	return "> " + v.bar.String() + " MISSED"
}

// verdicts judges this library by the bars of a scenario.
func (r *results) verdicts(s *scenario) []verdict {
	var all []verdict
	for _, b := range bars[s.name] {
		all = append(all, r.judge(s, b))
	}
	return all
}

func (r *results) judge(s *scenario, b bar) verdict {
	against, over := s, floor
	if b.in != "" {
		against = r.find(b.in, s.procs)
	}
	if b.over != "" {
		over = b.over
	}
	value, base := s.value(ours, b.unit), against.value(over, b.unit)
	v := verdict{bar: b, ran: value != 0 && base != 0}
	switch {
	case !v.ran:
	case value > b.limit(base):
		v.missed = b.unit
	case over == floor && s.value(ours, "allocs/op") > s.value(floor, "allocs/op"):
		v.missed = "allocs"
	}
	return v
}
