package guards

import (
	"fmt"
	"math"
	"net/http"
	"time"
)

// soon is the time that most calls have.
const soon = 30 * time.Second

// failing runs a load against a service whose attempts each have their luck.
func failing(c client, l load, timeout time.Duration, to func(*service, *http.Request) answer) figures {
	s := newService(l.seed, to)
	all := l.run(fleet(c, s, 1, timeout))
	return counted(all, s.arrived, 100)
}

// byChance are services whose answers fail by chance, each by itself.
func byChance() (worlds []world) {
	for _, rate := range []float64{1, 10, 100, 1000} {
		for _, percent := range []float64{10, 20, 30, 40, 50} {
			worlds = append(worlds, world{
				group: "by chance", name: fmt.Sprintf("%g a second, %g %%", rate, percent),
				quick: rate == 10 || rate == 100 && percent > 20,
				seeds: 1 + int(min(2, 10/rate)), bars: chanceBars(rate, percent),
				run: func(c client, seed uint64) figures {
					l := load{rate: rate, length: length(rate, 6000, 30*time.Second, 600*time.Second), deadline: soon, seed: seed}
					return failing(c, l, 0, func(s *service, req *http.Request) answer {
						if s.luck(req) < percent/100 {
							return unavailable(usual)
						}
						return ok(usual)
					})
				},
			})
		}
	}
	return worlds
}

// chanceBars returns the bars of byChance.
func chanceBars(rate, percent float64) []bar {
	switch {
	case percent == 50 && rate == 1:
		return nil
	case percent == 50:
		return []bar{atLeast(ours, success, 90), within(patient, 1, ours)}
	case percent == 40 && rate == 1:
		return []bar{within(ours, 2, unguarded)}
	}
	return []bar{within(ours, 1, unguarded), within(patient, 1, unguarded)}
}

// hungReplica are services with a replica that takes requests and never answers.
func hungReplica() (worlds []world) {
	for _, rate := range []float64{1, 10, 100, 1000} {
		for _, percent := range []float64{10, 20, 30} {
			w := world{
				group: "hung replica", name: fmt.Sprintf("%g a second, %g %%", rate, percent), quick: rate == 10,
				run: func(c client, seed uint64) figures {
					l := load{rate: rate, length: length(rate, 6000, 30*time.Second, 300*time.Second), deadline: soon, seed: seed}
					return failing(c, l, time.Second, func(s *service, req *http.Request) answer {
						if s.luck(req) < percent/100 {
							return answer{after: never}
						}
						return ok(usual)
					})
				},
			}
			if rate > 1 {
				w.bars = []bar{atLeast(ours, success, 98)}
			}
			worlds = append(worlds, w)
		}
	}
	return worlds
}

// A spreading is a service whose answers take longer or shorter.
type spreading struct {
	name    string
	percent float64 // that fails
	timeout time.Duration
	success func(u float64) time.Duration
	failure func(u float64) time.Duration // nil means success
}

// fixed is a time that does not vary.
func fixed(d time.Duration) func(float64) time.Duration {
	return func(float64) time.Duration { return d }
}

// logNormal returns the quantiles of a log-normal time with a median of 20 ms.
func logNormal(sigma float64) func(float64) time.Duration {
	return func(u float64) time.Duration {
		z := math.Sqrt2 * math.Erfinv(2*u-1)
		return time.Duration(float64(20*time.Millisecond) * math.Exp(sigma*z))
	}
}

var spreadings = []spreading{
	{name: "log-normal sigma 1, 20 %", percent: 20, success: logNormal(1)},
	{name: "log-normal sigma 1, 30 %", percent: 30, success: logNormal(1)},
	{name: "log-normal sigma 2, 20 %", percent: 20, success: logNormal(2)},
	{name: "log-normal sigma 2, 30 %", percent: 30, success: logNormal(2)},
	{name: "slow errors, 30 %", percent: 30, success: fixed(usual), failure: fixed(300 * time.Millisecond)},
	{name: "quick errors, 30 %", percent: 30, success: fixed(100 * time.Millisecond), failure: fixed(time.Millisecond)},
	{name: "timeout at p99, 20 %", percent: 20, success: logNormal(1), timeout: logNormal(1)(0.99)},
	{name: "timeout at p95, 20 %", percent: 20, success: logNormal(1), timeout: logNormal(1)(0.95)},
}

// spread are services whose latency varies, and whose answers fail by chance.
func spread() (worlds []world) {
	for _, rate := range []float64{10, 100, 1000} {
		for _, sp := range spreadings {
			worlds = append(worlds, world{
				group: "latency", name: fmt.Sprintf("%g a second, %s", rate, sp.name), quick: rate == 10 && sp.percent == 30,
				bars: []bar{atLeast(ours, success, 97)},
				run: func(c client, seed uint64) figures {
					l := load{rate: rate, length: length(rate, 6000, 30*time.Second, 300*time.Second), deadline: soon, seed: seed}
					return failing(c, l, sp.timeout, sp.answer)
				},
			})
		}
	}
	return worlds
}

// answer answers as the service does.
func (sp spreading) answer(s *service, req *http.Request) answer {
	fails := s.luck(req) < sp.percent/100
	u := luck(s.seed, req.URL.Path, -s.tries[req.URL.Path])
	switch {
	case !fails:
		return ok(sp.success(u))
	case sp.failure != nil:
		return unavailable(sp.failure(u))
	}
	return unavailable(sp.success(u))
}
