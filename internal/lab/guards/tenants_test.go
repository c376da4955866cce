package guards

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// tenants are hosts that throttle one credential, while the calls of another,
// in the same program, are welcome.
func tenants() (worlds []world) {
	for _, rate := range []float64{1, 4, 10, 20} {
		throttled := tenant{rate: rate, other: 20}
		exhausted := tenant{rate: rate, says: http.Header{"Retry-After": {"3600"}}, other: 2, later: 30 * time.Second}
		worlds = append(worlds,
			throttled.world(fmt.Sprintf("one is throttled, at %g a second", rate)),
			exhausted.world(fmt.Sprintf("one has used up its quota, at %g a second", rate)))
	}
	return worlds
}

// A tenant calls at a rate, and is throttled.
type tenant struct {
	rate  float64
	says  http.Header   // of the responses to it
	other float64       // the rate of the other tenant
	later time.Duration // when that begins
}

// world returns the world of the tenant. The figures are those of the other one.
func (x tenant) world(name string) world {
	return world{
		group: "tenants", name: name, quick: true, run: x.run,
		bars: []bar{atLeast(ours, success, 99), atLeast(patient, success, 99), {client: ours, figure: median, atMost: true, times: 2, other: unguarded, beside: median}},
	}
}

func (x tenant) run(c client, seed uint64) figures {
	s := newService(seed, func(_ *service, req *http.Request) answer {
		if req.Header.Get("Authorization") == "Bearer one" {
			return answer{after: usual, status: http.StatusTooManyRequests, header: x.says.Clone()}
		}
		return ok(usual)
	})
	do := c.start(s, 0)
	as := func(who string) func(context.Context, int) bool {
		header := http.Header{"Authorization": {"Bearer " + who}}
		return func(ctx context.Context, n int) bool { return get(ctx, do, path(n), header) }
	}
	var group sync.WaitGroup
	group.Go(func() {
		load{rate: x.rate, length: x.later + time.Minute, deadline: short, seed: seed}.run(as("one"))
	})
	time.Sleep(x.later)
	others := load{rate: x.other, length: time.Minute, deadline: short, seed: seed + 1}.run(as("another"))
	group.Wait()
	return counted(others, s.arrived, 100)
}
