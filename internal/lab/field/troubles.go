package main

import (
	"fmt"
	"strings"
)

// Troubles is the table of what became of calls in ordinary trouble.
func (p page) Troubles() string {
	var b strings.Builder
	b.WriteString("| Client | Success | Attempts per call | Lost | Attempts while it is down |\n|---|---|---|---|---|\n")
	for _, c := range clients {
		chance, down := p.troubledRun(c.name, byChance), p.troubledRun(c.name, restart)
		if chance == nil || down == nil {
			continue
		}
		f := chance.figures()
		fmt.Fprintf(&b, "| %s | %.1f %% | %.2f | %.1f s | %.0f |\n", c.caption, 100*f.success, f.attempts, down.lostTime(), down.attemptsIn())
	}
	return b.String()
}

// troubledRun returns the run of a client in a trouble, or nil.
func (p page) troubledRun(client string, t trouble) *run {
	for _, r := range p.troubled {
		if r.Client == client && r.Setup.Trouble == t {
			return r
		}
	}
	return nil
}

// lostTime returns how many calls were lost, as the seconds in which so many begin.
func (r *run) lostTime() float64 {
	return sum(r.Fleet.Lost[seconds(r.Setup.From):]) / r.Setup.rate()
}

// attemptsIn returns how many attempts were sent during the trouble.
func (r *run) attemptsIn() float64 {
	return sum(r.Fleet.Attempts[seconds(r.Setup.From):seconds(r.Setup.From+r.Setup.For)])
}

// drawRestart returns the picture of the runs with a restart.
func drawRestart(runs []*run) string {
	var all []panel
	for _, r := range runs {
		if r.Setup.Trouble == restart {
			all = append(all, panel{run: r, about: fmt.Sprintf("lost: the calls of %.1f s", r.lostTime())})
		}
	}
	return plot("A restart of 3 s: calls that succeed, % of those offered", "measured on real sockets, in seconds; in the strip, connections are refused", all)
}
