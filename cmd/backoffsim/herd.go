package main

import (
	"fmt"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// aboutHerd is the help text of the command herd.
func aboutHerd() string {
	return `Simulates 1000 clients that have failed together and come back to a server that can serve
500 a second. Each client is a process, with its own budget and breaker. The peers never
give up, like connections that must be restored; policies give up as they say.

Variants: A1 the server is up at once; A2 it is down for 5 s; A3 as A1, with an unlimited
queue; A4 as A1, for peers with a base of 1 s; A5 it is down for 30 s; A6 as A1, with a
slower network. Flags change all of this.
` + columns("the whole run", "not used: see last served, in the second table", sim.HerdReferences("A1"))
}

func runHerd(t *terminal, c *command, args []string) error {
	// The flags have the values of the variant as their defaults.
	for variant := "A1"; ; {
		s, err := sim.Herd(variant)
		if err != nil {
			return err
		}
		s.Processes = s.Trace[0].Count
		f := c.runFlags(&s)
		named := f.String("variant", variant, "the `name` of a variant, A1 to A6")
		f.IntVar(&s.Trace[0].Count, "clients", s.Trace[0].Count, "the `number` of clients")
		if err := f.parse(t, aboutHerd(), args); err != nil {
			return err
		}
		if *named == variant {
			return t.simulateHerd(variant, &s, f)
		}
		variant = *named
	}
}

// simulateHerd simulates a variant as changed by flags.
func (t *terminal) simulateHerd(variant string, s *sim.Scenario, f *runFlags) error {
	clients := s.Trace[0].Count
	if clients < 1 || clients > 10_000_000 {
		return fmt.Errorf("-clients is %d, want 1 to 10000000", clients)
	}
	if !f.scenario.given()["processes"] {
		s.Processes = clients
	}
	subjects, err := f.apply(t, sim.HerdReferences(variant))
	if err != nil {
		return err
	}
	return t.simulateOne(*s, subjects, f)
}
