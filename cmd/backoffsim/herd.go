package main

import (
	"fmt"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// herdPeers returns the peers of the command herd.
func herdPeers() []sim.Client { return sim.HerdReferences(100 * time.Millisecond) }

// aboutHerd is the help text of the command herd.
func aboutHerd() string {
	return `Simulates 1000 clients that have failed together and come back to a server that can serve
500 a second. Each client is a process, with its own budget and breaker. The peers never
give up, like connections that must be restored; policies give up as they say. Flags change
all of this: with -fault 5s -down the server is down for the first five seconds.
` + columns("the whole run", "not used: see last served, in the second table", herdPeers())
}

func runHerd(t *terminal, c *command, args []string) error {
	s := sim.Herd()
	clients := &s.Trace[0].Count
	s.Processes = *clients
	f := c.runFlags(&s)
	f.IntVar(clients, "clients", *clients, "the `number` of clients")
	if err := f.parse(t, aboutHerd(), args); err != nil {
		return err
	}
	if *clients < 1 || *clients > 10_000_000 {
		return fmt.Errorf("-clients is %d, want 1 to 10000000", *clients)
	}
	if !f.scenario.given()["processes"] {
		s.Processes = *clients
	}
	subjects, err := f.apply(t, herdPeers())
	if err != nil {
		return err
	}
	return t.simulateOne(s, subjects, f)
}
