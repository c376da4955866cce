package guards

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// A slowing is a server that only gets slower, and the load of its callers. It
// refuses nothing, or only where its queue is long.
type slowing struct {
	name      string
	server    server
	load      float64       // in parts of the capacity, at first and at last
	peak      float64       // the same, in the middle; 0 means load
	rise      time.Duration // until the peak
	processes int
	patient   bool // a second for each attempt, and not for each call
}

const (
	calm      = 40 * time.Second // at first
	inTrouble = 40 * time.Second
)

// at returns the load at a time.
func (x slowing) at(t time.Duration) float64 {
	t -= calm
	switch {
	case t < 0 || t >= inTrouble || x.peak == 0:
		return x.load
	case t < x.rise:
		return x.load + (x.peak-x.load)*float64(t)/float64(x.rise)
	}
	return x.peak
}

func (x slowing) run(c client, seed uint64) figures {
	v := x.server
	attempts := 0
	s := newService(seed, func(s *service, req *http.Request) answer {
		if s.since() >= calm {
			attempts++
		}
		return v.answer(s, req)
	})
	deadline, timeout := time.Second, time.Duration(0)
	if x.patient {
		deadline, timeout = 10*time.Second, time.Second
	}
	all := x.calls(fleet(c, s, x.processes, timeout), deadline, seed)
	troubled := all.between(calm, never)
	return counted(troubled, attempts, 100).with(worstQueue, v.worst.Seconds())
}

// calls makes the calls at random times.
func (x slowing) calls(do func(context.Context, int) bool, deadline time.Duration, seed uint64) (all calls) {
	times := rand.New(rand.NewPCG(seed, 3))
	var group sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for n := 0; ; n++ {
		now := time.Since(began)
		if now >= calm+inTrouble+20*time.Second {
			break
		}
		group.Go(func() {
			one := one(began, deadline, n, do)
			mu.Lock()
			all = append(all, one)
			mu.Unlock()
		})
		time.Sleep(time.Duration(times.ExpFloat64() / (capacity * x.at(now)) * float64(time.Second)))
	}
	group.Wait()
	return all
}

// slower are the worlds of servers that only get slower.
func slower() (worlds []world) {
	for _, x := range []slowing{
		{name: "load 120 %", load: .6, peak: 1.2},
		{name: "load 150 %", load: .6, peak: 1.5},
		{name: "load rises to 150 %", load: .6, peak: 1.5, rise: 30 * time.Second},
		{name: "load 150 %, rejects", server: server{longest: 200 * time.Millisecond, cost: 300 * time.Microsecond, rejection: 503}, load: .6, peak: 1.5},
		{name: "capacity 40 %", server: server{slowFrom: calm, slowTo: calm + 30*time.Second, left: 0.4}, load: .7},
	} {
		for _, processes := range []int{1, 20} {
			for _, patient := range []bool{false, true} {
				x := x
				x.processes, x.patient = processes, patient
				name := fmt.Sprintf("%s, %d processes, calls have 1 s", x.name, processes)
				if patient {
					name = fmt.Sprintf("%s, %d processes, attempts have 1 s", x.name, processes)
				}
				worlds = append(worlds, world{group: "slower", name: name, run: x.run, few: true, bars: []bar{
					within(ours, 2, none), within(ours, 2.5, "failsafelimit"), atMost(ours, perCall, 1.3)}})
			}
		}
	}
	return worlds
}

// A moving is a service that has room for all, and whose answers take longer for a
// reason of its own.
type moving struct {
	name     string
	rate     float64
	from, to time.Duration // when it is slower
	takes    time.Duration // then
	hung     float64       // share of the attempts then that get no answer
	deadline time.Duration
	costs    float64 // points of success that the guards may cost; 0 means 1
}

func (x moving) run(c client, seed uint64) figures {
	s := newService(seed, func(s *service, req *http.Request) answer {
		t := s.since()
		switch u := s.luck(req); {
		case t < x.from || t >= x.to:
			return ok(time.Duration(float64(usual) * (0.5 + u)))
		case u < x.hung:
			return answer{after: never}
		default:
			return ok(time.Duration(float64(x.takes) * (0.5 + u)))
		}
	})
	l := load{rate: x.rate, length: 3 * time.Minute, deadline: x.deadline, seed: seed}
	all := l.run(fleet(c, s, 1, time.Second)).between(x.from, never)
	return counted(all, s.arrived, 100)
}

// movings are services with room. One point was wanted everywhere. Where a share hangs from
// then on, the budget takes that for an overload and keeps retries back, and the limit
// makes a trial now and then.
func movings() (worlds []world) {
	for _, x := range []moving{
		{name: "slower by 3 to the end, 3 % hang", to: never, takes: 15 * time.Millisecond, hung: 0.03, costs: 7},
		{name: "slower by 10 to the end, 10 % hang", to: never, takes: 50 * time.Millisecond, hung: 0.1, costs: 14},
		{name: "slower by 40 to the end", to: never, takes: 200 * time.Millisecond},
		{name: "slower by 100 for 10 s", to: 70 * time.Second, takes: 500 * time.Millisecond, costs: 2.5},
		{name: "slower by 40 for 3 s", to: 63 * time.Second, takes: 200 * time.Millisecond},
	} {
		for _, rate := range []float64{10, 100, 1000} {
			for _, deadline := range []time.Duration{1500 * time.Millisecond, 10 * time.Second} {
				x.from, x.rate, x.deadline = time.Minute, rate, deadline
				worlds = append(worlds, world{group: "room", name: fmt.Sprintf("%s, %g a second, calls have %v", x.name, rate, deadline),
					run: x.run, few: true, bars: []bar{within(ours, cmp.Or(x.costs, 1), unguarded)}})
			}
		}
	}
	return worlds
}
