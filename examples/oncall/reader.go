package main

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// The troubles that a reader tells apart. The second is called throttled.
const down = "down"

// A symptom is what one process says about its calls to an upstream, on its page,
// in its log, or by its metrics.
type symptom struct {
	host    string
	trouble string // "" if there is none
	since   time.Time
	last    time.Time // when an attempt failed
	calls   int       // 0 if the source does not say
	hurt    int       // calls that failed, refused ones included
	opened  int       // how often the circuit opened
	open    bool      // it is open now, or half-open
}

// A finding is what the processes say together.
type finding struct {
	symptom
	processes int // that have the trouble
}

// findings sums up what each process says. An upstream has the trouble that most
// processes have with it, since the moment that half of them name.
func findings(said [][]symptom) []finding {
	var all []finding
	for _, host := range hosts {
		f := finding{symptom: symptom{host: host}}
		troubled := make(map[string][]symptom)
		for _, process := range said {
			for _, s := range process {
				if s.host != host {
					continue
				}
				f.calls, f.hurt, f.opened, f.open = f.calls+s.calls, f.hurt+s.hurt, f.opened+s.opened, f.open || s.open
				if s.trouble != "" {
					troubled[s.trouble] = append(troubled[s.trouble], s)
				}
			}
		}
		for trouble, of := range troubled {
			if len(of) <= len(said)/2 {
				continue
			}
			slices.SortFunc(of, func(a, b symptom) int { return a.since.Compare(b.since) })
			f.trouble, f.since, f.processes = trouble, of[len(of)/2].since, len(of)
			f.last = slices.MaxFunc(of, func(a, b symptom) int { return a.last.Compare(b.last) }).last
		}
		all = append(all, f)
	}
	return all
}

// troubleOf returns what the error of an attempt says about the upstream. The
// page and the logs show the class and the type.
func troubleOf(class, typ string) string {
	switch {
	case class == "throttled":
		return throttled
	case class == "not sent": // no connection, so it is not there
		return down
	case strings.Contains(strings.ToLower(typ), "timeout"):
		return slow
	}
	return ""
}

// nameOf returns the name of the policy for calls to a host.
func nameOf(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}

// hostOf returns the host of an endpoint such as "GET search.internal", or of a
// breaker such as "http://search.internal".
func hostOf(name string) string {
	return name[max(strings.LastIndexByte(name, ' '), strings.LastIndexByte(name, '/'))+1:]
}

// share returns a part of a whole in percent.
func share(part, whole int) float64 { return 100 * float64(part) / float64(cmp.Or(whole, 1)) }
