package guards

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// A blend is quick and slow calls to one host, which never gets slower. Only the
// share of the slow ones may change. Some of one kind fail, after as long as
// the others of their kind take.
type blend struct {
	name        string
	quick, slow func(luck float64) time.Duration // how long an answer takes
	fails       [2]float64                       // of a hundred quick and slow ones
	share       func(at time.Duration) float64   // of the slow ones
	rate        float64
}

// A blending is a share of slow calls, which may change.
type blending struct {
	name  string
	share func(at time.Duration) float64
	most  float64
}

// always is one share.
func always(share float64) blending {
	return blending{fmt.Sprintf("%g %% slow", 100*share), func(time.Duration) float64 { return share }, share}
}

// inTurn is two shares, of two minutes each.
func inTurn(low, high float64) blending {
	return blending{fmt.Sprintf("%g and %g %% slow in turn", 100*low, 100*high), func(at time.Duration) float64 {
		if at/(2*time.Minute)%2 == 0 {
			return low
		}
		return high
	}, high}
}

// rising is a share that rises and falls within eight minutes.
func rising(low, high float64) blending {
	return blending{fmt.Sprintf("%g to %g %% slow and back", 100*low, 100*high), func(at time.Duration) float64 {
		phase := math.Mod(at.Minutes()/4, 2)
		return low + (high-low)*min(phase, 2-phase)
	}, high}
}

// kinds are blends of calls of 5 ms and of slow ones, and hosts that are well
// though latencies change.
func kinds() (worlds []world) {
	blendings := []blending{always(.1), always(.5), always(.66), inTurn(.1, .6), rising(.1, .66), always(.75), always(.9)}
	fails := [][2]float64{{0, 50}, {0, 0}, {50, 0}, {0, 30}, {30, 0}}
	for i, takes := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
		for j, rate := range []float64{2, 10, 100} {
			for k, one := range blendings {
				f := fails[(i+2*j+k)%len(fails)]
				b := blend{quick: fixed(usual), slow: fixed(takes), fails: f, share: one.share, rate: rate}
				b.name = fmt.Sprintf("%v, %g a second, %s", takes, rate, one.name) + whatFails(f)
				worlds = append(worlds, b.world(one.most))
			}
		}
	}
	return append(worlds, well()...)
}

// whatFails names the calls that fail.
func whatFails(fails [2]float64) string {
	for i, name := range []string{"quick", "slow"} {
		if fails[i] > 0 {
			return fmt.Sprintf(", %g %% of the %s ones fail", fails[i], name)
		}
	}
	return ""
}

// world returns the world of a blend, of which so many are slow at most. 2 points were
// wanted everywhere. Until the first slow calls are answered, which takes 20 s, they pay
// for no retry.
func (b blend) world(most float64) world {
	points := 2.
	if strings.HasPrefix(b.name, "20s, 2 a second") {
		points = 3
	}
	bars := []bar{within(ours, points, unguarded), atMost(ours, strained, 12.5)}
	if most > 0.67 {
		bars = []bar{within(ours, 3+points, unguarded)}
	}
	return world{group: "kinds", name: b.name, few: true, quick: b.rate == 2, bars: bars, run: b.run}
}

// run lets a client live in the blend.
func (b blend) run(c client, seed uint64) figures {
	s := newService(seed, func(s *service, req *http.Request) answer {
		takes, fails := b.quick, b.fails[0]
		if luck(seed, "slow "+req.URL.Path, 0) < b.share(s.since()) {
			takes, fails = b.slow, b.fails[1]
		}
		after := takes(luck(seed, "takes "+req.URL.Path, s.tries[req.URL.Path]))
		if s.luck(req) < fails/100 {
			return unavailable(after)
		}
		return ok(after)
	})
	return watched(c, s, load{rate: b.rate, length: 10 * time.Minute, deadline: 2 * time.Minute, seed: seed})
}

// watched returns the figures of a load, and how often the client says that its
// host is slower than usual, after the first minute.
func watched(c client, s *service, l load) figures {
	services := &guard.Services{}
	do := c.start(s, 0)
	if c.name == ours {
		do = sending(&backoffhttp.Transport{Base: s, Services: services})
	}
	samples, slower := 0., 0.
	var watch sync.WaitGroup
	watch.Go(func() {
		for time.Sleep(time.Minute); s.since() < l.length; time.Sleep(time.Second) {
			samples++
			for _, one := range services.All() {
				if one.State().Budget.Strained {
					slower++
				}
			}
		}
	})
	all := l.run(func(ctx context.Context, n int) bool { return get(ctx, do, path(n), nil) })
	watch.Wait()
	return counted(all, s.arrived, 100).with(strained, 100*slower/max(1, samples))
}

// well are hosts that have room, whatever happens to the latency. A tenth of the
// answers fail, or a fifth.
func well() (worlds []world) {
	for _, rate := range []float64{2, 10, 100} {
		for _, one := range []blend{
			{
				name: "a slow endpoint gets more calls", quick: fixed(20 * time.Millisecond), slow: fixed(400 * time.Millisecond),
				fails: [2]float64{20, 20}, share: rising(.05, .6).share,
			},
			{name: "log-normal sigma 1", quick: logNormal(1), fails: [2]float64{20}, share: always(0).share},
			{name: "log-normal sigma 1.5", quick: logNormal(1.5), fails: [2]float64{20}, share: always(0).share},
			{name: "log-normal sigma 2", quick: logNormal(2), fails: [2]float64{20}, share: always(0).share},
			{
				name: "deploys, one new replica of five is slow", quick: logNormal(.5), slow: fixed(time.Second),
				fails: [2]float64{10, 10}, share: deploys(.2),
			},
			{
				name: "deploys, two new replicas of five are slow", quick: logNormal(.5), slow: fixed(time.Second),
				fails: [2]float64{10, 10}, share: deploys(.4),
			},
		} {
			one.rate, one.name = rate, fmt.Sprintf("%g a second, %s", rate, one.name)
			w := one.world(0)
			w.bars[0] = within(ours, 1, unguarded)
			worlds = append(worlds, w)
		}
	}
	return worlds
}

// deploys is the share of calls that meet a replica that has just begun: for 10 s
// each, one after the other, five times in three minutes.
func deploys(share float64) func(time.Duration) float64 {
	return func(at time.Duration) float64 {
		if at %= 3 * time.Minute; at > time.Minute && at%(15*time.Second) < 10*time.Second {
			return share
		}
		return 0
	}
}
