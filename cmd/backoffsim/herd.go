package main

import (
	"errors"
	"fmt"

	"github.com/gobackoff/backoff/internal/sim"
)

func aboutHerd() string {
	return `Simulates 1000 clients that have failed together and come back to a server that can do 500
a second. Each is a process of its own, with its own budget and breaker. The peers never
give up, as connections that must come back; policies do when they say so.

Variants: A1 the server is up at once; A2 it is down for 5 s; A3 as A1, with a queue of any
length; A4 as A1, for peers with a base of 1 s; A5 it is down for 30 s; A6 as A1, with a slower
network. All that they choose may be changed by flags.
` + columns("of the whole run", "nothing here; see last served, in the second table", sim.HerdReferences("A1"))
}

func runHerd(t *terminal, c *command, args []string) error {
	var m modelFlags
	var j judgeFlags
	var f scenarioFlags
	set := c.flags()
	m.flags(set, 10)
	j.flags(set)
	base, err := sim.Herd("A1")
	if err != nil {
		return err
	}
	base.Processes = base.Trace[0].Count
	f.flags(set, base)
	variant := set.String("variant", "A1", "the `name` of a variant, A1 to A6")
	clients := set.Int("clients", base.Trace[0].Count, "the `number` of clients")
	if err := t.parse(c, set, "", aboutHerd(), args); err != nil {
		return err
	}
	if err := errors.Join(m.check(), j.check()); err != nil {
		return err
	}
	s, err := sim.Herd(*variant)
	if err != nil {
		return err
	}
	if *clients < 1 || *clients > 10_000_000 {
		return fmt.Errorf("-clients is %d, want 1 to 10000000", *clients)
	}
	s.Trace[0].Count, s.Processes = *clients, *clients
	if err := f.apply(&s); err != nil {
		return err
	}
	subjects, err := t.subjects(m.policies, m.peers, sim.HerdReferences(*variant))
	if err != nil {
		return err
	}
	return t.simulate(s, subjects, &m, &j)
}
