package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// level is how much slower than the best peer is still as fast: from run to run
// they differ by as much.
const level = 1.1

// peers are the modules behind the names of the candidates.
var peers = []struct{ name, module string }{
	{"avast", "github.com/avast/retry-go/v5"},
	{"aws", "github.com/aws/aws-sdk-go-v2"},
	{"cenkalti", "github.com/cenkalti/backoff/v7"},
	{"eapache", "github.com/eapache/go-resiliency"},
	{"failsafe", "github.com/failsafe-go/failsafe-go"},
	{"gax", "github.com/googleapis/gax-go/v2"},
	{"gobreaker", "github.com/sony/gobreaker/v2"},
	{"hystrix", "github.com/afex/hystrix-go"},
	{"jpillora", "github.com/jpillora/backoff"},
	{"k8s", "k8s.io/apimachinery"},
	{"lestrrat", "github.com/lestrrat-go/backoff/v2"},
	{"rate", "golang.org/x/time"},
	{"retryablehttp", "github.com/hashicorp/go-retryablehttp"},
	{"sethvargo", "github.com/sethvargo/go-retry"},
}

// facts are the lines that the output begins with: the first four are those of
// make bench-docs.
var facts = []string{"date", "toolchain", "load", "how", "goos", "goarch", "cpu"}

type page struct {
	*results
	notes    *notes
	versions map[string]string // of modules
}

// requirements returns the versions in the text of a go.mod.
func requirements(mod string) map[string]string {
	versions := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+/\S+) (v\S+)`).FindAllStringSubmatch(mod, -1) {
		versions[m[1]] = m[2]
	}
	return versions
}

// problems are the reasons why the page cannot be written.
func (p *page) problems() []string {
	var all []string
	for _, name := range facts {
		if p.facts[name] == "" {
			all = append(all, "the output has no line \""+name+": ...\"")
		}
	}
	for _, peer := range peers {
		if p.versions[peer.module] == "" {
			all = append(all, "go.mod does not require "+peer.module)
		}
	}
	for _, s := range p.scenarios {
		all = append(all, p.problemsOf(s)...)
	}
	for _, name := range slices.Concat(p.notes.names, slices.Sorted(maps.Keys(bars))) {
		if !p.ran(name) {
			all = append(all, name+" has a note or a bar, but did not run")
		}
	}
	return slices.Compact(all)
}

func (p *page) ran(name string) bool {
	return slices.ContainsFunc(p.scenarios, func(s *scenario) bool { return s.name == name && len(s.candidates) > 0 })
}

func (p *page) problemsOf(s *scenario) []string {
	var all []string
	if p.notes.of[s.name].what == "" {
		all = append(all, s.name+" has no note that says what it is")
	}
	for _, v := range p.verdicts(s) {
		if !v.ran {
			all = append(all, fmt.Sprintf("%s has a bar of %s, and nothing to measure it by", s.name, v.bar))
		}
	}
	for _, c := range s.candidates {
		if c.peer() && !known(c.name) {
			all = append(all, s.name+"/"+c.name+" is not a name of a peer")
		}
	}
	if reason := p.wanting(s); reason != "" && p.notes.of[s.name].why == "" {
		all = append(all, s.name+" "+reason+", and its note has no paragraph \""+why+"...\"")
	}
	return all
}

// known says whether a candidate is made of peers: aws, aws-bucket,
// eapache+aws.
func known(candidate string) bool {
	for part := range strings.SplitSeq(candidate, "+") {
		name, _, _ := strings.Cut(part, "-")
		if !slices.ContainsFunc(peers, func(p struct{ name, module string }) bool { return p.name == name }) {
			return false
		}
	}
	return true
}

// wanting says what must be explained of the scenario: a bar that is missed, or
// a peer that is ahead.
func (p *page) wanting(s *scenario) string {
	for _, v := range p.verdicts(s) {
		if v.missed != "" {
			return "misses its bar of " + v.bar.String()
		}
	}
	for _, unit := range s.measured() {
		if name, best := s.bestPeer(unit); best > 0 && s.value(ours, unit) > level*best {
			return "is behind " + name
		}
	}
	return ""
}

// slower says whether a scenario without a bar costs more than the floor.
func (s *scenario) slower() bool {
	if len(bars[s.name]) > 0 {
		return false
	}
	return slices.ContainsFunc(s.measured(), func(unit string) bool {
		base := s.value(floor, unit)
		return base > 0 && s.value(ours, unit) > level*base
	})
}

// measured are the units that are compared.
func (s *scenario) measured() []string {
	return slices.DeleteFunc(s.sorted(), func(unit string) bool { return slices.Contains(counts, unit) })
}
