package guards

import (
	"cmp"
	"fmt"
	"net/http"
	"time"
)

// A trouble is a service that is down at times, and the load of its callers.
type trouble struct {
	load
	says    answer                   // while it is down
	down    func(time.Duration) bool // since the beginning
	between int                      // services between
	timeout time.Duration            // of an attempt
	answers func() answer            // while it is up; nil means at once
}

// live lets a client live in the trouble.
func (x trouble) live(c client) (calls, figures) {
	during := 0.0
	s := newService(x.seed, func(s *service, _ *http.Request) answer {
		switch {
		case x.down(s.since()):
			during++
			return x.says
		case x.answers != nil:
			return x.answers()
		}
		return ok(usual)
	})
	all := x.run(through(c, s, x.between, x.timeout))
	could, downs := 0, 0.0
	for _, one := range all {
		if x.down(one.began) {
			downs++
		}
		if x.servable(one.began) {
			could++
		}
	}
	f := counted(all, s.arrived, 100*float64(could)/float64(len(all)))
	return all, f.with(meanwhile, during/max(1, downs))
}

// servable reports whether the service is up at some time that a call has.
func (x trouble) servable(began time.Duration) bool {
	const steps = 16
	for i := range time.Duration(steps + 1) {
		if !x.down(began + i*cmp.Or(x.deadline, time.Hour)/steps) {
			return true
		}
	}
	return false
}

// A way is how a service is away.
type way struct {
	name    string
	says    answer
	timeout time.Duration // of an attempt
}

var ways = []way{{"refused", refused(), 0}, {"503", unavailable(usual), 0}, {"hung", answer{after: never}, time.Second}, {"no name", unnamed(), 0}}

// An absence is an outage, and those who call meanwhile.
type absence struct {
	way
	rate            float64
	lasts, deadline time.Duration // no deadline is 0
	between         int           // services
}

// outages are absences of all ways and lengths for callers who have half a
// minute, and each pair of a way, a length, a rate and a deadline.
func outages() (worlds []world) {
	rates := []float64{10, 100, 1000, 1}
	deadlines := []time.Duration{soon, time.Second, 5 * time.Second, 0}
	for j, lasts := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
		for _, w := range ways {
			worlds = append(worlds, absence{w, 10, lasts, soon, 0}.world(), absence{w, 100, lasts, soon, 0}.world())
		}
		for i, deadline := range deadlines { // a Latin square
			if rate := rates[(i+j)%4]; deadline != soon || rate != 10 && rate != 100 {
				worlds = append(worlds, absence{ways[(2*i+j)%4], rate, lasts, deadline, 0}.world())
			}
		}
	}
	return worlds
}

// world returns the world of the absence.
func (x absence) world() world {
	has := "no deadline"
	if x.deadline > 0 {
		has = x.deadline.String()
	}
	_, length := x.when()
	return world{
		group: "outage", name: fmt.Sprintf("%s for %v, %g a second, calls have %s", x.name, x.lasts, x.rate, has),
		quick: x.rate == 10 && x.lasts == 3*time.Second, few: x.rate == 1000, bars: x.bars(),
		seeds: 1 + int(min(9, 4000/(x.rate*length.Seconds()))),
		run:   x.run,
	}
}

// when returns when the outage begins, and the length of the load.
func (x absence) when() (from, length time.Duration) {
	from, after := max(10*time.Second, x.lasts/2), max(10*time.Second, x.lasts)
	if x.rate == 1000 {
		from, after = 10*time.Second, 10*time.Second
	}
	return from, from + x.lasts + after
}

func (x absence) run(c client, seed uint64) figures {
	from, length := x.when()
	down := func(t time.Duration) bool { return t >= from && t < from+x.lasts }
	l := load{rate: x.rate, length: length, deadline: x.deadline, seed: seed}
	all, f := trouble{load: l, says: x.says, down: down, between: x.between, timeout: x.timeout}.live(c)
	return f.after(from+x.lasts, all, x.rate)
}

// outlasts reports whether calls have time until the outage has ended. Without a
// deadline they wait for 5 s, and an attempt that hangs takes a second.
func (x absence) outlasts() bool {
	return cmp.Or(x.deadline, 5*time.Second)-x.timeout > x.lasts
}

// bars returns the bars of the absence. Short hangs that few calls notice have
// none.
func (x absence) bars() []bar {
	if x.rate <= 10 && x.timeout > 0 && x.lasts < 10*time.Second {
		return nil
	}
	bars := []bar{within(failfast, 2, none)} // 1 was wanted
	switch {
	case x.outlasts():
		bars = append(bars, mostly(map[bool]float64{true: 95, false: 99}[x.deadline == 0])) // 99 was wanted
	case x.lasts == time.Minute && x.deadline == soon && x.rate < 1000:
		bars = append(bars, atLeast(ours, success, 78.5)) // 79 was wanted
	default:
		bars = append(bars, within(ours, 2.5, none)) // 1 was wanted
	}
	if x.rate > 1 {
		bars = append(bars, atMost(ours, back, max(0.5, x.lasts.Seconds()/31)))
	}
	if x.lasts == 3*time.Second && x.deadline == soon {
		bars = append(bars, within(eight, 1, ours))
	}
	if x.rate == 100 {
		bars = append(bars, x.sparing())
	}
	return bars
}

// sparing returns the bar of the attempts while the service is down.
func (x absence) sparing() bar {
	switch {
	case x.lasts >= time.Minute:
		return atMost(ours, meanwhile, 0.1)
	case x.lasts >= 10*time.Second:
		return atMost(ours, meanwhile, 0.4)
	}
	return bar{client: ours, figure: meanwhile, atMost: true, times: 1.1, other: unguarded, beside: meanwhile} // retries wait by chance
}

// flapping are services that are up and down in turn.
func flapping() (worlds []world) {
	for _, w := range ways[:2] {
		for _, phase := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 8 * time.Second} {
			for _, rate := range []float64{10, 100} {
				for _, deadline := range []time.Duration{soon, time.Second} {
					bars := []bar{within(ours, 1, none), within(failfast, 5.5, none)} // 1 was wanted of the last
					if deadline == soon {
						bars[0] = mostly(90)
					}
					worlds = append(worlds, world{
						group: "flapping", name: fmt.Sprintf("%s, %v up and down, %g a second, calls have %v", w.name, phase, rate, deadline),
						quick: rate == 10 && phase == 2*time.Second, seeds: int(max(1, 120/rate)), bars: bars,
						run: func(c client, seed uint64) figures {
							l := load{rate: rate, length: max(32*time.Second, 12*phase), deadline: deadline, seed: seed}
							down := func(t time.Duration) bool { return t/phase%2 == 1 }
							_, f := trouble{load: l, says: w.says, down: down}.live(c)
							return f
						},
					})
				}
			}
		}
	}
	return worlds
}

// restarts are servers on whose port nothing listens for the last seconds of each
// half minute. They can do twice the work that comes.
func restarts() (worlds []world) {
	for _, rate := range []float64{10, 1000} {
		for i, down := range []time.Duration{time.Second, 3 * time.Second, 8 * time.Second} {
			bars := []bar{atLeast(ours, success, 99.5), atMost(ours, worstQueue, 2), within(failfast, 1, none)}
			if rate == 10 { // a quarter more than when the bars were set; of the last, 0.58 was wanted
				bars = append(bars, atMost(ours, meanwhile, []float64{2.9, 1.3, 0.65}[i]))
			}
			worlds = append(worlds, world{
				group: "restarts", name: fmt.Sprintf("%v of every 30s, %g a second", down, rate), quick: rate == 10, seeds: int(max(1, 40/rate)), bars: bars,
				run: func(c client, seed uint64) figures { return restarting(c, seed, rate, down) },
			})
		}
	}
	return worlds
}

// restarting is a world of two minutes with four restarts.
func restarting(c client, seed uint64, rate float64, lasts time.Duration) figures {
	const cycle, length = 30 * time.Second, 2 * time.Minute
	var q queue
	work := time.Duration(float64(time.Second) / (2 * rate))
	all, f := trouble{
		load: load{rate: rate, length: length, deadline: soon, seed: seed}, says: refused(),
		down:    func(t time.Duration) bool { return t%cycle >= cycle-lasts && t < length },
		answers: func() answer { return ok(q.add(work)) },
	}.live(c)
	return f.with(worstQueue, q.worst.Seconds()).with(lost, (1-all.share()/100)*float64(cycle)/float64(lasts))
}

// rare are callers who call once a minute, or an hour, by chance or while the
// service restarts for two seconds of ten.
func rare() (worlds []world) {
	restarting := func(t time.Duration) bool { return t%(10*time.Second) >= 8*time.Second }
	for _, every := range []time.Duration{time.Minute, time.Hour} {
		l := load{rate: 1 / every.Seconds(), length: 200 * every, deadline: soon}
		w := world{group: "rare", seeds: 10, quick: every == time.Minute, bars: []bar{within(ours, 1, unguarded)}}
		w.name = fmt.Sprintf("one call in %v, 20 %% fail by chance", every)
		w.run = func(c client, seed uint64) figures { return failing(c, l.with(seed), 0, failsByChance(0.2)) }
		worlds = append(worlds, w)
		w.name = fmt.Sprintf("one call in %v, restarts of 2 s in 10", every)
		w.run = func(c client, seed uint64) figures {
			_, f := trouble{load: l.with(seed), says: refused(), down: restarting}.live(c)
			return f
		}
		worlds = append(worlds, w)
	}
	return worlds
}

// chainOutages are outages of the last of some services that ask one another.
func chainOutages() (worlds []world) {
	for between := range 4 {
		for _, lasts := range []time.Duration{3 * time.Second, 10 * time.Second, soon} {
			worlds = append(worlds, world{
				group: "chain outage", name: fmt.Sprintf("%d between, the last is down for %v", between, lasts), quick: lasts == 3*time.Second,
				bars: []bar{atMost(ours, back, lasts.Seconds()/10+2), atMost(ours, meanwhile, 1.02)},
				run:  absence{ways[0], 100, lasts, soon, between}.run,
			})
		}
	}
	return worlds
}
