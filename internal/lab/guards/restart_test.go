package guards

import (
	"fmt"
	"net/http"
	"time"
)

// restarts are servers on whose port nothing listens for the last seconds of each
// half minute. They can do twice the work that comes.
func restarts() (worlds []world) {
	for _, rate := range []float64{10, 1000} {
		for _, down := range []time.Duration{time.Second, 3 * time.Second, 8 * time.Second} {
			bars := []bar{atMost(ours, lost, 1.2), atLeast(patient, success, 99.5), atMost(patient, worstQueue, 2)}
			if rate == 10 {
				bars = append(bars, atMost(patient, whileDown, 200))
			}
			worlds = append(worlds, world{
				group: "restarts", name: fmt.Sprintf("%v of every 30s, %g a second", down, rate), quick: rate == 10, bars: bars,
				run: func(c client, seed uint64) figures { return restarting(c, seed, rate, down) },
			})
		}
	}
	return worlds
}

// restarting is a world of two minutes with four restarts.
func restarting(c client, seed uint64, rate float64, down time.Duration) figures {
	const cycle, length = 30 * time.Second, 2 * time.Minute
	var q queue
	attempts := 0
	s := newService(seed, func(s *service, _ *http.Request) answer {
		if s.since()%cycle >= cycle-down && s.since() < length {
			attempts++
			return refused()
		}
		return ok(q.add(time.Duration(float64(time.Second) / (2 * rate))))
	})
	all := load{rate: rate, length: length, deadline: soon, seed: seed}.run(fleet(c, s, 1, 0))
	f := counted(all, s.arrived, 100).with(whileDown, float64(attempts)).with(worstQueue, q.worst.Seconds())
	return f.with(lost, (1-all.share()/100)*float64(cycle)/float64(down))
}
