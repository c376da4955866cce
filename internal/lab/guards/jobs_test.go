package guards

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
)

// A plain limit refuses what comes too fast, and says so.
type plain struct {
	perSecond, burst float64
	takes            time.Duration // an answer
	after            string        // the Retry-After of a refusal; empty for none
}

// service returns a service with the limit.
func (p plain) service(seed uint64) (*service, *limiter) {
	l := newLimiter(p.perSecond, p.burst)
	return newService(seed, func(*service, *http.Request) answer {
		if l.take() {
			return ok(p.takes)
		}
		return p.refusal()
	}), l
}

// refusal is how a request is refused.
func (p plain) refusal() answer {
	a := answer{after: p.takes, status: http.StatusTooManyRequests}
	if p.after != "" {
		a.header = http.Header{"Retry-After": {p.after}}
	}
	return a
}

// says says how a request is refused.
func (p plain) says() string {
	if p.after == "" {
		return "bare 429"
	}
	return "429 with " + p.after + " s"
}

// An errand is a job without deadlines at a plain limit.
type errand struct {
	plain
	workers, calls int
	bare           float64 // of 100 runs with bare 429, those that may lose a call: as many as before
}

// errands are the jobs for whose answers constants were chosen, and then others.
var errands = []errand{
	{plain{100, 100, 2 * time.Millisecond, ""}, 10, 1000, 4}, {plain{100, 100, 5 * time.Millisecond, ""}, 10, 1000, 32},
	{plain{100, 100, 10 * time.Millisecond, ""}, 10, 1000, 4}, {plain{100, 100, 20 * time.Millisecond, ""}, 10, 1000, 14},
	{plain{100, 100, 50 * time.Millisecond, ""}, 10, 1000, 27},
	{plain{60, 20, 35 * time.Millisecond, ""}, 16, 600, 16}, {plain{250, 50, 8 * time.Millisecond, ""}, 24, 1500, 7},
	{plain{30, 60, 15 * time.Millisecond, ""}, 6, 500, 52},
}

// jobs are jobs at a plain limit.
func jobs() (worlds []world) {
	for _, e := range errands {
		for _, after := range []string{"1", ""} {
			e.after = after
			most := 2.
			if after == "" {
				most = e.bare
			}
			worlds = append(worlds, world{
				group: "jobs", seeds: 200, run: e.run, quick: e.takes == 20*time.Millisecond && after == "1",
				name: fmt.Sprintf("%d workers, %g a second, burst %g, answers of %v, %s", e.workers, e.perSecond, e.burst, e.takes, e.says()),
				bars: []bar{atMost(ours, losing, most), atMost(ours, refusals, 15)},
			})
		}
	}
	return worlds
}

func (e errand) run(c client, seed uint64) figures {
	s, l := e.service(seed)
	all := job{workers: e.workers, calls: e.calls}.run(fleet(c, s, 1, 0))
	f := counted(all, s.arrived, 100).with(took, all.end().Seconds()).with(losing, 0)
	if all.good() < len(all) {
		f[losing] = 100
	}
	return f.with(refusals, 100*float64(l.refused)/float64(s.arrived))
}

// A crowd is more calls than a limit allows, of several priorities.
type crowd struct {
	plain
	rates []float64 // of calls a second, those that matter most first
	has   time.Duration
	short float64 // points below none; 0 were wanted
}

var crowds = []crowd{
	{plain{100, 100, usual, ""}, []float64{53, 53, 53}, 5 * time.Second, 0},
	{plain{100, 100, 200 * time.Millisecond, ""}, []float64{53, 53, 53}, 5 * time.Second, 0},
	{plain{100, 100, usual, ""}, []float64{80, 80}, 5 * time.Second, 0},
	{plain{100, 100, 200 * time.Millisecond, ""}, []float64{80, 80}, 5 * time.Second, 0},
	{plain{100, 100, 200 * time.Millisecond, "1"}, []float64{80, 80}, 5 * time.Second, 0},
	{plain{100, 100, 50 * time.Millisecond, ""}, []float64{100, 100, 100}, 5 * time.Second, 0},
	{plain{100, 100, 50 * time.Millisecond, ""}, []float64{80, 220}, 5 * time.Second, 0},
	{plain{100, 100, 50 * time.Millisecond, ""}, []float64{160}, 5 * time.Second, 0},
	{plain{40, 10, 90 * time.Millisecond, ""}, []float64{10, 20, 40}, 3 * time.Second, 1.5},
	{plain{250, 30, 30 * time.Millisecond, "2"}, []float64{200, 200}, 8 * time.Second, 0},
	{plain{60, 60, 400 * time.Millisecond, ""}, []float64{100}, 2 * time.Second, 0},
}

// priorities are crowds at a plain limit. success is that of all, and first that of the
// calls that matter most.
func priorities() (worlds []world) {
	for i, x := range crowds {
		bars := []bar{within(ours, x.short, none)}
		if len(x.rates) > 1 && x.rates[0] < x.perSecond {
			bars = append(bars, atLeast(ours, foremost, 95))
		}
		worlds = append(worlds, world{
			group: "priorities", seeds: 3, run: x.run, quick: i < 2, bars: bars,
			name: fmt.Sprintf("%s a second at a limit of %g, answers of %v, %s, calls have %v", strings.ReplaceAll(strings.Trim(fmt.Sprint(x.rates), "[]"), " ", " + "), x.perSecond, x.takes, x.says(), x.has),
		})
	}
	return worlds
}

func (x crowd) run(c client, seed uint64) figures {
	s, l := x.service(seed)
	do := fleet(c, s, 1, 0)
	sum := 0.
	for _, rate := range x.rates {
		sum += rate
	}
	rank := func(n int) int {
		u := luck(seed, "priority", n) * sum
		for i, rate := range x.rates {
			if u -= rate; u < 0 {
				return i
			}
		}
		return 0
	}
	highest := backoff.PriorityNormal
	if len(x.rates) > 2 {
		highest = backoff.PriorityHigh
	}
	all := load{rate: sum, length: time.Minute, deadline: x.has, seed: seed}.run(func(ctx context.Context, n int) bool {
		return do(backoff.WithPriority(ctx, highest-backoff.Priority(rank(n))), n)
	})
	var first calls
	for n, one := range all {
		if rank(n) == 0 {
			first = append(first, one)
		}
	}
	could := min(100, 100*(x.perSecond*60+x.burst)/float64(len(all)))
	f := counted(all, s.arrived, could).with(foremost, first.share())
	return f.with(refusals, 100*float64(l.refused)/float64(s.arrived))
}

// An exhaustion is a quota that is used up for a while.
type exhaustion struct {
	load
	plain
	processes int
	lasts     time.Duration
}

var exhaustions = []exhaustion{
	{load{rate: 2, deadline: 3 * time.Second}, plain{}, 1, 20 * time.Minute},
	{load{rate: 2, deadline: 5 * time.Second}, plain{after: "1"}, 1, 20 * time.Minute},
	{load{rate: 2, deadline: 3 * time.Second}, plain{after: "3600"}, 1, 20 * time.Minute},
	{load{rate: 10, deadline: 3 * time.Second}, plain{}, 1, time.Minute},
	{load{rate: 10, deadline: 5 * time.Second}, plain{}, 1, 20 * time.Minute},
	{load{rate: 50, deadline: 3 * time.Second}, plain{}, 1, 20 * time.Minute},
	{load{rate: 50, deadline: 5 * time.Second}, plain{after: "1"}, 1, time.Minute},
	{load{rate: 20, deadline: 5 * time.Second}, plain{}, 20, 20 * time.Minute},
	{load{rate: 100, deadline: 5 * time.Second}, plain{}, 200, 20 * time.Minute},
	{load{rate: 2, deadline: 3 * time.Second}, plain{}, 1, time.Hour},
	{load{rate: 10, deadline: 5 * time.Second}, plain{after: "2"}, 1, 5 * time.Minute},
	{load{rate: 50, deadline: 3 * time.Second}, plain{}, 1, time.Hour},
	{load{rate: 1, deadline: 10 * time.Second}, plain{}, 1, 20 * time.Minute},
	{load{rate: 5, deadline: 2 * time.Second}, plain{}, 1, 7 * time.Minute},
	{load{rate: 200, deadline: 2 * time.Second}, plain{}, 1, 2 * time.Minute},
	{load{rate: 20, deadline: 3 * time.Second}, plain{after: "1"}, 200, 5 * time.Minute},
}

// quotas are services that refuse all calls until a quota is reset. A process that calls
// less than once a second feels that with its next call.
func quotas() (worlds []world) {
	for i, x := range exhaustions {
		name := fmt.Sprintf("%g a second that have %v, %v of %s", x.rate, x.deadline, x.lasts, x.says())
		if x.processes > 1 {
			name += fmt.Sprintf(", %d processes", x.processes)
		}
		worlds = append(worlds, world{
			group: "quota", name: name, seeds: 1 + int(4/x.rate), run: x.run, quick: i == 0, bars: []bar{atMost(ours, recovery, max(1, float64(x.processes)/x.rate)), atMost(ours, meanwhile, 1.05)},
		})
	}
	return worlds
}

func (x exhaustion) run(c client, seed uint64) figures {
	const before, after = 30 * time.Second, 5 * time.Minute
	x.takes = cmp.Or(x.takes, usual)
	during, inTrouble := 0., 0.
	s := newService(seed, func(s *service, _ *http.Request) answer {
		if now := s.since(); now < before || now >= before+x.lasts {
			return ok(x.takes)
		}
		during++
		return x.refusal()
	})
	x.seed, x.length = seed, before+x.lasts+after
	all := x.load.run(fleet(c, s, x.processes, 0))
	for _, one := range all {
		if one.began >= before && one.began < before+x.lasts {
			inTrouble++
		}
	}
	f := counted(all, s.arrived, 100*float64(before+after)/float64(x.length))
	return f.with(recovery, all.recovered(before+x.lasts)).with(meanwhile, during/inTrouble)
}
