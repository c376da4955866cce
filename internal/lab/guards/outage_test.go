package guards

import (
	"net/http"
	"time"
)

// outages are services that serve no call for a minute.
func outages() (worlds []world) {
	for _, kind := range []struct {
		name             string
		says             answer
		success, recover float64 // what the default client had
	}{{"503", unavailable(usual), 55.5, 7}, {"timeouts", answer{after: never}, 53, 11}} {
		worlds = append(worlds, world{
			group: "outage", name: kind.name + " for a minute", quick: kind.name == "503", seeds: 10,
			// The means of ten runs vary by a point and two seconds.
			bars: []bar{keeps(kind.success, 2), atMost(ours, recovery, 1.1*kind.recover+2), atMost(ours, meanwhile, 1.02)},
			run:  func(c client, seed uint64) figures { return outage(c, seed, kind.says) },
		})
	}
	return worlds
}

// outage is a world in which a service says the same to all for a minute. A call
// waits for half of it at most.
func outage(c client, seed uint64, says answer) figures {
	const from, to, length = 30 * time.Second, 90 * time.Second, 150 * time.Second
	during := 0
	s := newService(seed, func(s *service, _ *http.Request) answer {
		if now := s.since(); now >= from && now < to {
			during++
			return says
		}
		return ok(usual)
	})
	all := load{rate: 100, length: length, deadline: soon, seed: seed}.run(fleet(c, s, 1, time.Second))
	f := counted(all, s.arrived, 100*(1-(to-from-soon).Seconds()/length.Seconds())).with(recovery, all.recovered(to))
	return f.with(meanwhile, float64(during)/float64(len(all.between(from, to))))
}
