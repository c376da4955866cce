package main

import (
	"errors"
	"strconv"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// aboutRateLimit is the help text of the command ratelimit.
func aboutRateLimit() string {
	return `Simulates a job at an API with a rate limit: 1000 calls by 50 workers, each of whom makes one
call after the other, at an API that accepts 100 a second, and 100 at once after a pause. It
answers others with "too much", as HTTP does with 429. So the job takes 9 s at the least.
Flags change all of this; -users is the number of workers.

The policies none (no retries), naive (three, at once) and default (the zero Policy with
RetryBudget and Breaker) are always shown. docs/results/simulation.md explains the columns.

Below the table are the verdict on your policies, or on default if you give none, and
warnings, which need no simulation. In -json, times are seconds.

Peers, for -peer:` + nameLines(sim.References("ratelimit"))
}

func runRateLimit(t *terminal, c *command, args []string) error {
	s := sim.RateLimit()
	f := c.runFlags(&s)
	if err := f.parse(t, aboutRateLimit(), args); err != nil {
		return err
	}
	subjects, err := f.apply(t, sim.References("ratelimit"))
	if err != nil {
		return err
	}
	if s.Calls == 0 {
		return errors.New("a job has a number of -calls, and is done by -users; for other traffic there is backoffsim run")
	}
	return t.simulateOne(s, subjects, f)
}

// jobTable returns a row for each policy, with what became of a job.
func (t *trial) jobTable() *table {
	rows := &table{left: 1}
	rows.add("policy", "success %", "lost", "last served s", "of the least", "attempts per call", "refused %",
		"mean s", "p99 s")
	least := t.scenario.LeastTime().Seconds()
	for _, r := range t.results {
		multiple := "-"
		if r.Lost.Mean == 0 && least > 0 {
			multiple = strconv.FormatFloat(r.Drain.Mean/least, 'f', 2, 64)
		}
		rows.add(r.Client, figure(r.Success, 100), figure(r.Lost, 1), figure(r.Drain, 1), multiple,
			last(r.Amplification), figure(r.Throttled, 100), figure(r.Mean, 1), figure(r.P99, 1))
	}
	return rows
}
