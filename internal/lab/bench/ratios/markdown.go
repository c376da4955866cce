package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// markdown is the page.
func (p *page) markdown() string {
	parts := []string{"# Benchmarks", intro, p.firstTable(), p.verdictWords(), "## How it is measured", p.notes.how,
		"## The machine and the peers", p.machine(), p.peerTable(), "## All scenarios", p.summary()}
	for _, s := range p.sorted() {
		parts = append(parts, p.section(s)...)
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// sorted returns the scenarios in the order of the notes.
func (p *page) sorted() []*scenario {
	return slices.SortedFunc(slices.Values(p.scenarios), func(a, b *scenario) int {
		return cmp.Compare(slices.Index(p.notes.names, a.name), slices.Index(p.notes.names, b.name))
	})
}

func (p *page) summary() string {
	rows := [][]string{{"Scenario", "This library", "Floor", "x floor", "Bar", "Best peer", "Verdict"}}
	for _, s := range p.sorted() {
		for _, unit := range s.measured() {
			rows = append(rows, p.summaryOf(s, unit))
		}
	}
	return table(rows)
}

func (p *page) summaryOf(s *scenario, unit string) []string {
	value, base := s.value(ours, unit), s.value(floor, unit)
	name, best := s.bestPeer(unit)
	peer := ""
	if best > 0 {
		peer = name + ", " + amount(best, unit)
	}
	cost := amount(value, unit)
	if unit == "ns/op" {
		cost += fmt.Sprintf(", %g allocs", s.value(ours, "allocs/op"))
	}
	limit, held := p.bar(s, unit)
	return []string{fmt.Sprintf("[%s](#%s)", s.name, anchor(s.name)), cost, amount(base, unit), ratio(value, base), limit, peer,
		strings.Trim(held+", "+standing(value, best), ", ")}
}

// bar says what is promised, and whether it is held.
func (p *page) bar(s *scenario, unit string) (limit, held string) {
	var limits []string
	for _, v := range p.verdicts(s) {
		if v.bar.unit != unit {
			continue
		}
		limits = append(limits, v.bar.String())
		if v.missed != "" {
			held = "**missed**"
		} else if held == "" {
			held = "held"
		}
	}
	return strings.Join(limits, "; "), held
}

// standing compares with the best peer.
func standing(value, best float64) string {
	switch {
	case best == 0:
		return ""
	case value > level*best:
		return "**behind**"
	case value*level < best:
		return "ahead"
	}
	return "level"
}

// amount is a value with its unit: 1.2 ns, 3 KiB, 20 ms.
func amount(value float64, unit string) string {
	if value == 0 {
		return ""
	}
	for _, u := range []struct{ unit, short string }{{"ns/op", "ns"}, {"bytes/waiter", "B"}, {"ms-to-release", "ms"}} {
		if unit == u.unit {
			unit = u.short
		}
	}
	return short(value) + " " + unit
}

var notInAnchors = regexp.MustCompile(`[^a-z0-9 -]`)

// anchor is what a heading is linked by.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func (p *page) machine() string {
	s := slices.MaxFunc(p.scenarios, func(a, b *scenario) int { return cmp.Compare(a.runs, b.runs) })
	total := 0.0
	for _, took := range p.seconds {
		total += took
	}
	return fmt.Sprintf("%s, %s of %s, %s/%s, %s, load average %s before. The least of %d rounds of %.0f s, by\n\n```sh\nmake bench-docs %s\n```",
		p.facts["date"], processors(s.procs), p.facts["cpu"], p.facts["goos"], p.facts["goarch"], p.facts["toolchain"], p.facts["load"],
		s.runs, total/float64(max(s.runs, 1)), p.facts["how"])
}

func (p *page) peerTable() string {
	rows := [][]string{{"Name", "Module", "Version"}}
	for _, peer := range peers {
		rows = append(rows, []string{peer.name, peer.module, p.versions[peer.module]})
	}
	return table(rows)
}

// section is a scenario with its words.
func (p *page) section(s *scenario) []string {
	n := p.notes.of[s.name]
	parts := []string{"## " + s.name, n.what, table(s.table(p.results))}
	if n.why != "" && (p.wanting(s) != "" || s.slower()) {
		parts = append(parts, why+n.why)
	}
	return parts
}

// table writes rows, the first of which are names.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
