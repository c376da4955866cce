package guards

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gobackoff/backoff/backoffhttp"
)

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
