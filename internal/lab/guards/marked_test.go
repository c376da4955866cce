package guards

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

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
