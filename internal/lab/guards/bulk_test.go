package guards

import (
	"fmt"
	"time"
)

// A quantity is a job at a limit.
type quantity struct {
	rate, burst float64
	calls       int
	refused     float64 // at most, in percent
	over        float64 // seconds beyond 1.2 times the ideal, at most; 0.5 were wanted
}

var quantities = []quantity{
	{500, 10, 2000, 20, 1}, {500, 100, 2000, 15, .5}, {200, 20, 2000, 15, .5},
	{50, 5, 100, 23, .8}, {50, 5, 600, 20, .5}, {100, 100, 1000, 15, .5},
}

// bulk are jobs that 20 workers of a program that has just begun do at a server
// with a limit.
func bulk() (worlds []world) {
	for _, q := range quantities {
		worlds = append(worlds, world{
			group: "bulk", name: fmt.Sprintf("%g a second, burst %g, %d calls", q.rate, q.burst, q.calls), quick: true,
			seeds: max(6, 2000/q.calls), // a small job is as long as chance has it
			bars: []bar{
				{client: ours, figure: took, atMost: true, plus: q.over, times: 1.2, other: ours, beside: ideal},
				atMost(ours, refusals, q.refused),
			},
			run: func(c client, seed uint64) figures { return limited(c, seed, q) },
		})
	}
	return worlds
}

// limited is the world of a quantity.
func limited(c client, seed uint64, q quantity) figures {
	l := newLimiter(q.rate, q.burst)
	s := newService(seed, l.answer)
	all := job{workers: 20, calls: q.calls, deadline: 2 * time.Minute}.run(fleet(c, s, 1, 0))
	f := counted(all, s.arrived, 100)
	f.with(took, all.end().Seconds()).with(ideal, (float64(q.calls)-q.burst)/q.rate)
	return f.with(refusals, 100*float64(l.refused)/float64(s.arrived))
}
