package guards

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A mixture is calls of which some fail for a reason of their own. The service
// would always serve the others.
type mixture struct {
	name     string
	method   string        // of the bad calls
	status   int           // of the answers to them
	takes    time.Duration // an answer
	deadline time.Duration // of the bad calls
}

var mixtures = []mixture{
	{"a path that fails", http.MethodGet, http.StatusServiceUnavailable, usual, soon},
	{"writes that fail", http.MethodPost, http.StatusServiceUnavailable, usual, soon},
	{"an upstream that is away", http.MethodGet, http.StatusBadGateway, usual, soon},
	{"too little time", http.MethodGet, http.StatusOK, 200 * time.Millisecond, 30 * time.Millisecond},
}

// mixed are mixtures of good calls and bad ones. The figures are those of the
// good ones.
func mixed() (worlds []world) {
	for _, m := range mixtures {
		for _, rate := range []float64{10, 100} {
			for _, percent := range []float64{10, 30, 50, 60, 70, 90} {
				want := 99.5
				if percent == 90 {
					want = 95
				}
				worlds = append(worlds, world{
					group: "mixture", name: fmt.Sprintf("%s, %g %% of %g a second", m.name, percent, rate),
					quick: rate == 10 && percent == 60, seeds: 1 + int(20/rate), bars: []bar{atLeast(ours, success, want)},
					run: func(c client, seed uint64) figures { return m.live(c, seed, rate, percent/100) },
				})
			}
		}
	}
	return worlds
}

// live lets a client live in the mixture.
func (m mixture) live(c client, seed uint64, rate, share float64) figures {
	bad := func(n int) bool { return luck(seed, m.name, n) < share }
	s := newService(seed, func(_ *service, req *http.Request) answer {
		if strings.HasPrefix(req.URL.Path, "/bad/") {
			return answer{after: m.takes, status: m.status}
		}
		return ok(m.takes)
	})
	do := c.start(s, 0)
	l := load{rate: rate, length: length(rate, 3000, 30*time.Second, time.Minute), deadline: soon, seed: seed}
	all := l.run(func(ctx context.Context, n int) bool {
		if !bad(n) {
			return get(ctx, do, path(n), nil)
		}
		ctx, cancel := context.WithTimeout(ctx, m.deadline)
		defer cancel()
		return ask(ctx, do, m.method, fmt.Sprint(address, "bad/", n), nil)
	})
	var good calls
	for n, one := range all {
		if !bad(n) {
			good = append(good, one)
		}
	}
	f := counted(good, s.arrived, 100)
	return f.with(perCall, float64(s.arrived)/float64(len(all)))
}
