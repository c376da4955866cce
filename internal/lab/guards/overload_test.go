package guards

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A server does one thing after the other, and does not notice that a caller has
// gone. It can do a thousand a second.
type server struct {
	queue
	slowFrom, slowTo time.Duration
	left             float64       // of its capacity, in that time
	failsFrom        time.Duration // on,
	fails            float64       // of the answers, which cost as much as any
	longest          time.Duration // of the queue; beyond it requests are rejected. 0 means no limit
	cost             time.Duration // of a rejection
	rejection        int           // its status
}

// answer answers a request, or rejects it.
func (v *server) answer(s *service, req *http.Request) answer {
	begins := s.since() + v.length()
	slowly := 1.0
	if begins >= v.slowFrom && begins < v.slowTo {
		slowly = v.left
	}
	if v.longest > 0 && v.length() >= v.longest {
		v.add(time.Duration(float64(v.cost) / slowly))
		return answer{after: time.Millisecond, status: v.rejection}
	}
	after := v.add(time.Duration(s.rand.ExpFloat64() * float64(time.Millisecond) / slowly))
	if s.luck(req) < v.fails && s.since() >= v.failsFrom {
		return unavailable(after)
	}
	return ok(after)
}

// capacity is how many attempts a server can do in a second.
const capacity = 1000

// A strain is a server and what comes to it.
type strain struct {
	server
	load      float64       // in parts of the capacity
	well      time.Duration // at first; those calls do not count
	length    time.Duration // from then on
	processes int
	could     float64 // in percent
	few       bool    // see world
}

// many is a number of processes for which only the clients of the bars run: the
// others take long.
const many = 200

// run sends the load, with a second for each attempt.
func (x strain) run(c client, seed uint64) figures {
	attempts := 0
	s := newService(seed, func(s *service, req *http.Request) answer {
		if s.since() >= x.well {
			attempts++
		}
		return x.answer(s, req)
	})
	l := load{rate: capacity * x.load, length: x.well + x.length, deadline: soon, seed: seed}
	all := l.run(fleet(c, s, x.processes, time.Second)).between(x.well, never)
	f := counted(all, attempts, x.could).with(worstQueue, x.worst.Seconds())
	if x.slowTo > 0 {
		f.with(recovery, all.recovered(x.slowTo))
	}
	return f
}

// world returns the world of the strain.
func (x strain) world(group, name string, bars ...bar) world {
	return world{group: group, name: name, bars: bars, few: x.few || x.processes == many, run: x.run}
}

// dip returns a server that does 30 % of its work for ten seconds.
func dip() server {
	return server{slowFrom: 30 * time.Second, slowTo: 40 * time.Second, left: 0.3}
}

// dips are dips of a server whose queue has no end, and of one that says 429 when
// its queue is long.
func dips() (worlds []world) {
	for _, d := range []struct {
		load          float64
		processes     int
		was, wasSlows float64 // what the default client made of it
	}{{.8, 20, 87, 100}, {.9, 20, 87, 100}, {.8, many, 87, 100}, {.9, many, 87, 100}} {
		x := strain{server: dip(), load: d.load, length: 120 * time.Second, processes: d.processes, could: 100}
		w := x.world("dip", fmt.Sprintf("load %g %%, %d processes", 100*d.load, d.processes), within(ours, 5, none), keeps(d.was, 1))
		x.longest, x.cost, x.rejection = 200*time.Millisecond, 300*time.Microsecond, http.StatusTooManyRequests
		worlds = append(worlds, w, x.world("dip", w.name+", and 429", keeps(d.wasSlows, 1)))
	}
	return worlds
}

// costlyErrors are shares of answers that fail, and loads, with the points that a
// bar leaves to 20 and to 200 processes. 3 were wanted of the last one: for a
// second nearly every call fails, and the circuits open for five.
var costlyErrors = []struct {
	fails, load float64
	points      [2]float64
}{
	{.25, .5, [2]float64{1, 1}}, {.25, .7, [2]float64{1, 1}}, {.25, .8, [2]float64{1, 1}}, {.25, .9, [2]float64{1, 1}},
	{.50, .4, [2]float64{1, 1}}, {.50, .6, [2]float64{1, 1}}, {.50, .8, [2]float64{1, 1}},
	{.10, .95, [2]float64{3, 3}}, {.35, .95, [2]float64{3, 10}},
}

// erring returns a server of whose answers a share fails.
func erring(fails, load float64, processes int) strain {
	return strain{
		server: server{fails: fails}, load: load, processes: processes, length: time.Minute,
		could: min(100, 100*(1-fails)/load), few: load < 0.9,
	}
}

// rejecting returns a server whose capacity falls so much that the load is more
// than it can do.
func rejecting(load float64, processes int) strain {
	return strain{
		server: server{
			slowTo: never, left: .8 / load,
			longest: 200 * time.Millisecond, cost: 240 * time.Microsecond, rejection: http.StatusServiceUnavailable,
		},
		load: .8, processes: processes, length: time.Minute, could: 100 / load,
	}
}

// after returns the strain after a minute in which all is well.
func (x strain) after() strain {
	x.well = time.Minute
	x.failsFrom, x.slowFrom = x.well, x.well
	return x
}

// overloads are servers whose errors cost as much as their successes, and
// servers that cannot serve all. Processes that start in such a time take it for
// usual: two worlds are about them.
func overloads() (worlds []world) {
	for i, processes := range []int{20, many} {
		for _, e := range costlyErrors {
			name := fmt.Sprintf("%g %% fail at load %g %%, %d processes", 100*e.fails, 100*e.load, processes)
			worlds = append(worlds, erring(e.fails, e.load, processes).after().world("overload", name, within(ours, e.points[i], none)))
		}
		for _, r := range []struct {
			load float64
			was  [2]float64
		}{{1.05, [2]float64{93.8, 93.2}}, {1.2, [2]float64{77.4, 77.2}}} {
			name := fmt.Sprintf("rejects at load %g %%, %d processes", 100*r.load, processes)
			worlds = append(worlds, rejecting(r.load, processes).after().world("overload", name, keeps(r.was[i], 1)))
		}
	}
	return append(worlds,
		erring(.25, .9, many).world("overload", "from the start, 25 % fail at load 90 %, 200 processes", keeps(55, 6), within(none, 0, none)),
		rejecting(1.2, many).world("overload", "from the start, rejects at load 120 %, 200 processes", keeps(70, 6), within(none, 0, none)))
}

// limits are programs that could make more calls than a limit allows, all the
// time.
func limits() []world {
	worlds := []world{{
		group: "limits", name: "falls to a tenth", quick: true, bars: []bar{atMost(ours, refusals, 15), atMost(ours, recovery, 5)},
		run: fallingLimit,
	}}
	for i, most := range []float64{15, 17, 20} { // 15 were wanted
		programs := 1 << i
		worlds = append(worlds, world{
			group: "limits", name: fmt.Sprintf("%d programs at 100 a second", programs), seeds: 4 * programs, quick: programs == 2, bars: []bar{atMost(ours, refusals, most)},
			run: func(c client, seed uint64) figures { return sharedLimit(c, seed, programs) },
		})
	}
	for _, b := range []struct {
		calls int
		rate  float64
	}{{20, 20}, {20, 10}, {100, 50}} {
		worlds = append(worlds, world{
			group: "limits", name: fmt.Sprintf("%d calls at once every 30 s, at %g a second", b.calls, b.rate), seeds: 3, quick: true, bars: []bar{atLeast(ours, success, 96)},
			run: func(c client, seed uint64) figures { return bursts(c, seed, b.calls, b.rate) },
		})
	}
	return worlds
}

// bursts is a world whose program rests between bursts of calls, of which five may
// go at once.
func bursts(c client, seed uint64, each int, perSecond float64) figures {
	l := newLimiter(perSecond, 5)
	s := newService(seed, l.answer)
	do := fleet(c, s, 1, 0)
	var all calls
	for range 20 {
		all = append(all, job{workers: each, calls: each, deadline: 5 * time.Second}.run(do)...)
		time.Sleep(30 * time.Second)
	}
	return counted(all, s.arrived, 100).with(refusals, 100*float64(l.refused)/float64(s.arrived))
}

// sharedLimit is a world in which programs of 50 workers share a limit.
func sharedLimit(c client, seed uint64, programs int) figures {
	l := newLimiter(100, 100)
	s := newService(seed, l.answer)
	served := make([]calls, programs)
	var group sync.WaitGroup
	for i := range served {
		do := fleet(c, s, 1, 0)
		group.Go(func() { served[i] = job{workers: 50, length: time.Minute, deadline: soon}.run(do) })
	}
	group.Wait()
	all := slices.Concat(served...)
	smallest := slices.MinFunc(served, func(a, b calls) int { return a.good() - b.good() })
	f := counted(all, s.arrived, 100).with(refusals, 100*float64(l.refused)/float64(s.arrived))
	return f.with(least, 100*float64(smallest.good())/float64(max(1, all.good())))
}

// answer answers as a service with a limit does.
func (l *limiter) answer(*service, *http.Request) answer {
	if !l.take() {
		return tooMany()
	}
	return ok(usual)
}

// fallingLimit is a world whose limit falls to a tenth after half a minute, and
// comes back after another half.
func fallingLimit(c client, seed uint64) figures {
	const third = 30 * time.Second
	l := newLimiter(100, 100)
	full := make([]float64, 90)
	s := newService(seed, func(s *service, _ *http.Request) answer {
		l.rate, l.burst = 100, 100
		if now := s.since(); now >= third && now < 2*third {
			l.rate, l.burst = 10, 10
		}
		if !l.take() {
			return tooMany()
		}
		full[min(len(full)-1, int(s.since()/time.Second))]++
		return ok(usual)
	})
	all := job{workers: 50, length: 3 * third, deadline: soon}.run(fleet(c, s, 1, 0))
	f := counted(all, s.arrived, 100).with(refusals, 100*float64(l.refused)/float64(s.arrived))
	return f.with(recovery, reaches(full[60:89], 90))
}

// reaches returns the first second of three that serve so many calls each, and
// how many seconds there are if there is none.
func reaches(seconds []float64, calls float64) float64 {
	for i := range len(seconds) - 2 {
		if min(seconds[i], seconds[i+1], seconds[i+2]) >= calls {
			return float64(i)
		}
	}
	return float64(len(seconds))
}

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
			seeds: max(18, 2000/q.calls), // a small job is as long as chance has it
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

// tenants are hosts that throttle one credential, while the calls of another,
// in the same program, are welcome.
func tenants() (worlds []world) {
	for _, rate := range []float64{1, 4, 10, 20} {
		throttled := tenant{rate: rate, other: 20}
		exhausted := tenant{rate: rate, says: http.Header{"Retry-After": {"3600"}}, other: 2, later: 30 * time.Second}
		worlds = append(worlds,
			throttled.world(fmt.Sprintf("one is throttled, at %g a second", rate)),
			exhausted.world(fmt.Sprintf("one has used up its quota, at %g a second", rate)))
	}
	return worlds
}

// A tenant calls at a rate, and is throttled.
type tenant struct {
	rate  float64
	says  http.Header   // of the responses to it
	other float64       // the rate of the other tenant
	later time.Duration // when that begins
}

// world returns the world of the tenant. The figures are those of the other one.
func (x tenant) world(name string) world {
	return world{
		group: "tenants", name: name, quick: true, run: x.run,
		bars: []bar{atLeast(ours, success, 99), atLeast(failfast, success, 99), {client: ours, figure: median, atMost: true, times: 2, other: unguarded, beside: median}},
	}
}

func (x tenant) run(c client, seed uint64) figures {
	s := newService(seed, func(_ *service, req *http.Request) answer {
		if req.Header.Get("Authorization") == "Bearer one" {
			return answer{after: usual, status: http.StatusTooManyRequests, header: x.says}
		}
		return ok(usual)
	})
	do := c.start(s, 0)
	as := func(who string) func(context.Context, int) bool {
		header := http.Header{"Authorization": {"Bearer " + who}}
		return func(ctx context.Context, n int) bool { return get(ctx, do, path(n), header) }
	}
	var group sync.WaitGroup
	group.Go(func() {
		load{rate: x.rate, length: x.later + time.Minute, deadline: short, seed: seed}.run(as("one"))
	})
	time.Sleep(x.later)
	others := load{rate: x.other, length: time.Minute, deadline: short, seed: seed + 1}.run(as("another"))
	group.Wait()
	return counted(others, s.arrived, 100)
}
