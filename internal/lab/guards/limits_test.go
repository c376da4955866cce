package guards

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// limits are programs that could make more calls than a limit allows, all the
// time.
func limits() []world {
	worlds := []world{{
		group: "limits", name: "falls to a tenth", quick: true, bars: []bar{atMost(ours, refusals, 15), atMost(ours, recovery, 5)},
		run: fallingLimit,
	}}
	for i, most := range []float64{15, 15, 20} { // 15 were wanted
		programs := 1 << i
		worlds = append(worlds, world{
			group: "limits", name: fmt.Sprintf("%d programs at 100 a second", programs), seeds: 2 * programs, quick: programs == 2, bars: []bar{atMost(ours, refusals, most)},
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
