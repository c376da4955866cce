package main

import (
	"fmt"
	"strings"
)

// first are the figures of the first page, and what it calls them.
var first = []struct{ scenario, unit, words string }{
	{"DoSuccess/func", "ns/op", "a call that succeeds at once"},
	{"DoSuccess/configured", "ns/op", "the same, under a policy with fields set"},
	{"Fail3", "ns/op", "a call that fails three times first"},
	{"Exhausted/made", "ns/op", "a call that gives up, with its error"},
	{"BudgetSuccess", "ns/op", "what a success costs its budget"},
	{"BreakerClosed", "ns/op", "a call through a closed breaker"},
	{"Stack", "ns/op", "breaker, budget and retries together"},
	{"Hedge", "ns/op", "a call that sends no hedge"},
	{"HTTP/get", "ns/op", "an HTTP request, with budget and breaker"},
	{"Wait100k", "bytes/waiter", "memory of a call that waits"},
	{"Size/http", "KiB", "size of a program with net/http"},
}

const intro = `<!-- make bench-docs writes this page. Its words are in internal/lab/bench/ratios. -->

What this library costs, beside code written by hand for the same work (the floor) and beside the fastest of
the other libraries that do it. The words in the first column lead to the details.`

// firstTable has the figures of the first page.
func (p *page) firstTable() string {
	rows := [][]string{{"What", "This library", "Floor", "x floor", "Best peer", "Verdict"}}
	for _, f := range first {
		if !p.ran(f.scenario) {
			continue
		}
		for _, s := range p.scenarios {
			if s.name == f.scenario {
				c := p.summaryOf(s, f.unit)
				rows = append(rows, []string{fmt.Sprintf("[%s](#%s)", f.words, anchor(f.scenario)), c[1], c[2], c[3], c[5], c[6]})
			}
		}
	}
	return table(rows)
}

// verdictWords says what the verdicts mean, and names the scenarios that missed
// a bar or are behind.
func (p *page) verdictWords() string {
	var missed, behind []string
	for _, s := range p.sorted() {
		for _, v := range p.verdicts(s) {
			if v.missed != "" {
				missed = append(missed, item(s, missedBy(s, v)))
			}
		}
		for _, unit := range s.measured() {
			if name, best := s.bestPeer(unit); standing(s.value(ours, unit), best) == "**behind**" {
				behind = append(behind, item(s, ratio(s.value(ours, unit), best)+" x "+name))
			}
		}
	}
	return "A bar is a promise, made when a part was built: at most so many times the floor.\n\n" +
		"- **Missed** are " + list(missed) + ".\n" +
		"- **Behind** means more than " + fmt.Sprint(level) + " times the best peer: " + list(behind) + ".\n\n" +
		"The section of each says why. [All scenarios](#all-scenarios) has the others."
}

func item(s *scenario, words string) string {
	return fmt.Sprintf("[%s](#%s) (%s)", s.name, anchor(s.name), words)
}

func missedBy(s *scenario, v verdict) string {
	if v.missed == "allocs" {
		return "allocations"
	}
	if v.bar.plus == 0 && v.bar.over == "" {
		return ratio(s.value(ours, v.bar.unit), s.value(floor, v.bar.unit)) + " x floor, bar " + v.bar.String()
	}
	return "bar " + v.bar.String()
}

func list(items []string) string {
	if len(items) == 0 {
		return "none"
	}
	return strings.Join(items, ",\n  ")
}
