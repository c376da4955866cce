package guards

import (
	"fmt"
	"net/http"
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
