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
					return failing(c, l, 0, failsByChance(percent/100))
				},
			})
		}
	}
	return worlds
}

// failsByChance returns how a service answers of whose answers a share fails.
func failsByChance(share float64) func(*service, *http.Request) answer {
	return func(s *service, req *http.Request) answer {
		if s.luck(req) < share {
			return unavailable(usual)
		}
		return ok(usual)
	}
}

// chanceBars returns the bars of byChance.
func chanceBars(rate, percent float64) []bar {
	switch {
	case percent == 50 && rate == 1:
		return nil
	case percent == 50:
		return []bar{atLeast(ours, success, 90), within(failfast, 1, ours)}
	case percent == 40 && rate == 1:
		return []bar{within(ours, 2, unguarded)}
	}
	return []bar{within(ours, 1, unguarded), within(failfast, 1, unguarded)}
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
				group: "chain", name: fmt.Sprintf("%d between, the last fails %g %%", services, percent), quick: percent > 10,
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
	last := newService(seed, failsByChance(fails))
	l := load{rate: 100, length: time.Minute, deadline: soon, seed: seed}
	all := l.run(through(c, last, services, 0))
	return counted(all, last.arrived, 100).with(leaf, float64(last.arrived)/float64(len(all)))
}

// through returns how to call a service through some others.
func through(c client, last http.RoundTripper, services int, timeout time.Duration) func(context.Context, int) bool {
	next := last
	for range services {
		handle := relay
		if c.module == "" && c.name != none {
			handle = between
		}
		next = room{handle(c.start(next, timeout))}
	}
	return fleet(c, next, 1, timeout)
}
