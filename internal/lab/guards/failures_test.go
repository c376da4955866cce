package guards

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
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

// short is the time that calls have whose user waits.
const short = 3 * time.Second

// A refusal is a way to say that a request is refused for its own sake.
type refusal struct {
	name  string
	write http.HandlerFunc
}

var refusalsOfOne = []refusal{
	{"DoNotRetry and 503", func(w http.ResponseWriter, _ *http.Request) {
		backoffhttp.DoNotRetry(w)
		w.WriteHeader(http.StatusServiceUnavailable)
	}},
	{"WriteError(Permanent)", func(w http.ResponseWriter, r *http.Request) {
		backoffhttp.WriteError(w, r, backoff.Permanent(errors.New("no such order")))
	}},
}

// marked are services that refuse some calls, whatever the caller does.
func marked() (worlds []world) {
	for _, refusal := range refusalsOfOne {
		for _, rate := range []float64{10, 200, 1000} {
			for _, one := range []int{50, 20, 10, 4} {
				worlds = append(worlds, world{
					group: "marked", name: fmt.Sprintf("%s, 1 of %d, %g a second", refusal.name, one, rate),
					quick: rate == 10 || rate == 200 && one == 20, bars: []bar{possible(ours, 1)},
					run: func(c client, seed uint64) figures { return refuseSome(c, seed, rate, one, refusal) },
				})
			}
		}
	}
	return worlds
}

// refuseSome is a world in which one call of a few is refused each time it is
// tried.
func refuseSome(c client, seed uint64, rate float64, one int, r refusal) figures {
	l := load{rate: rate, length: length(rate, 4000, 10*time.Second, 60*time.Second), deadline: short, seed: seed}
	refuses := func(url string) bool { return luck(seed, url, 0) < 1/float64(one) }
	s := newService(seed, func(_ *service, req *http.Request) answer {
		if refuses(req.URL.String()) {
			return written(req, r.write)
		}
		return ok(usual)
	})
	all := l.run(fleet(c, s, 1, 0))
	rest := 0
	for n := range all {
		if !refuses(path(n)) {
			rest++
		}
	}
	return counted(all, s.arrived, 100*float64(rest)/float64(len(all)))
}

// scattered are services that answer some requests with 429, whatever the rate.
func scattered() (worlds []world) {
	for _, way := range []string{"every one of", "by chance 1 of"} {
		for _, rate := range []float64{10, 200, 1000} {
			for _, one := range []int{50, 20, 10} {
				worlds = append(worlds, world{
					group: "bare 429", name: fmt.Sprintf("%s %d, %g a second", way, one, rate),
					quick: rate == 10 || rate == 200 && one == 20, bars: []bar{possible(ours, 2)},
					run: func(c client, seed uint64) figures {
						l := load{rate: rate, length: length(rate, 4000, 10*time.Second, 60*time.Second), deadline: short, seed: seed}
						return failing(c, l, 0, func(s *service, req *http.Request) answer {
							if way[0] == 'e' && s.arrived%one == 0 || way[0] == 'b' && s.luck(req) < 1/float64(one) {
								return tooMany()
							}
							return ok(usual)
						})
					},
				})
			}
		}
	}
	return worlds
}

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

// A room is a service that is a handler.
type room struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (r room) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return response(req, answer{status: w.Code, header: w.Header()}), nil
}

// between returns a service that asks another one, as the documents of this
// library say.
func between(next send) http.Handler {
	return backoffhttp.Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.String(), nil)
		if err != nil {
			panic(err)
		}
		resp, err := next(req)
		if err == nil {
			defer resp.Body.Close()
			err = backoffhttp.Check(resp)
		}
		backoffhttp.WriteError(w, r, err)
	}))
}

// relay returns a service that asks another one, and passes its answer on.
func relay(next send) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !get(r.Context(), next, r.URL.String(), nil) {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
}

// chains are services that ask one another. The last one fails.
func chains() (worlds []world) {
	for _, services := range []int{0, 1, 2} {
		for _, percent := range []float64{10, 30, 100} {
			w := world{
				group: "chain", name: fmt.Sprintf("%d between, the last fails %g %%", services, percent), quick: true,
				bars: []bar{within(ours, 3, unguarded)},
				run:  func(c client, seed uint64) figures { return chain(c, seed, services, percent/100) },
			}
			if percent == 100 {
				w.bars = []bar{atMost(ours, leaf, 1.02)}
			}
			worlds = append(worlds, w)
		}
	}
	return worlds
}

// chain is a world in which a call goes through so many services to the last.
func chain(c client, seed uint64, services int, fails float64) figures {
	last := newService(seed, func(s *service, req *http.Request) answer {
		if s.luck(req) < fails {
			return unavailable(usual)
		}
		return ok(usual)
	})
	var next http.RoundTripper = last
	for range services {
		handle := relay
		if c.module == "" && c.name != none {
			handle = between
		}
		next = room{handle(c.start(next, 0))}
	}
	do := c.start(next, 0)
	l := load{rate: 100, length: time.Minute, deadline: soon, seed: seed}
	all := l.run(func(ctx context.Context, n int) bool { return get(ctx, do, path(n), nil) })
	return counted(all, last.arrived, 100).with(leaf, float64(last.arrived)/float64(len(all)))
}
