package guards

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A surprise is a world for which no constant was chosen. It has no bar.
type surprise struct {
	name string
	load
	could     float64 // in percent; 0 means 100
	processes int     // 0 means one
	timeout   time.Duration
	burst     int // calls at once, every so often; length says until when
	every     time.Duration
	limit     [2]float64                                 // of what it serves in a second, and at once
	others    func(n int) bool                           // calls that are not counted
	method    string                                     // of these
	answer    func(s *service, req *http.Request) answer // within the limit; nil means at once
	starts    func() answering                           // in place of answer, for a service that remembers
	says      answer                                     // beyond it
}

// answering is how a service answers.
type answering = func(*service, *http.Request) answer

// fresh are the surprises.
func fresh() (worlds []world) {
	for _, x := range slices.Concat(surprises, surprisesOfLoad) {
		worlds = append(worlds, world{group: "fresh", name: x.name, seeds: 3, run: x.run})
	}
	return worlds
}

// isOther is where the calls go that are not counted.
const isOther = "/other"

func (x surprise) run(c client, seed uint64) figures {
	if x.starts != nil {
		x.answer = x.starts()
	}
	l := newLimiter(x.limit[0], x.limit[1])
	s := newService(seed, func(s *service, req *http.Request) answer {
		switch {
		case x.says.status != 0 && !l.take():
			return x.says
		case x.answer == nil:
			return ok(usual)
		}
		return x.answer(s, req)
	})
	sends := make([]send, max(1, x.processes))
	for i := range sends {
		sends[i] = c.start(s, x.timeout)
	}
	do := func(ctx context.Context, n int) bool {
		to := sends[n%len(sends)]
		if x.others != nil && x.others(n) {
			return ask(ctx, to, cmp.Or(x.method, http.MethodGet), address+isOther[1:], nil)
		}
		return get(ctx, to, path(n), nil)
	}
	x.seed = seed
	all := x.calls(do)
	var counts calls
	for n, one := range all {
		if x.others == nil || !x.others(n) {
			counts = append(counts, one)
		}
	}
	f := counted(counts, s.arrived, cmp.Or(x.could, 100))
	return f.with(perCall, float64(s.arrived)/float64(len(all)))
}

// calls makes the calls, at random times or in bursts.
func (x surprise) calls(do func(context.Context, int) bool) calls {
	if x.burst == 0 {
		return x.load.run(do)
	}
	all := make(calls, x.burst*int(x.length/x.every))
	var group sync.WaitGroup
	began := time.Now()
	for n := range all {
		time.Sleep(time.Duration(n/x.burst)*x.every - time.Since(began))
		group.Go(func() { all[n] = one(began, x.deadline, n, do) })
	}
	group.Wait()
	return all
}

// during reports whether a time is in a part of a run.
func during(t time.Duration, from, to int) bool {
	return t >= time.Duration(from)*time.Second && t < time.Duration(to)*time.Second
}

// reset is the error of a handshake that is broken off.
func reset() answer {
	return answer{after: 20 * time.Millisecond, err: &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}}
}

// later is an answer that says when to come again.
func later(status int, seconds string) answer {
	return answer{after: usual, status: status, header: http.Header{"Retry-After": {seconds}}}
}

// come returns a load.
func come(rate float64, seconds, deadline int) load {
	return load{rate: rate, length: time.Duration(seconds) * time.Second, deadline: time.Duration(deadline) * time.Second}
}

var surprises = []surprise{
	{name: "a slow ramp to failure", load: come(50, 120, 10), answer: func(s *service, req *http.Request) answer {
		if s.luck(req) < s.since().Seconds()/60-0.25 && s.since() < 80*time.Second {
			return unavailable(usual)
		}
		return ok(usual)
	}},
	{name: "a deploy goes over five replicas", load: come(100, 60, 5), answer: func(s *service, req *http.Request) answer {
		round := int(s.since().Seconds()) - 10
		if replica := int(s.luck(req) * 5); round >= 0 && round/6 == replica && round%6 < 4 {
			return refused()
		}
		return ok(usual)
	}},
	{name: "failures come in rows", load: come(30, 120, 10), answer: func(s *service, _ *http.Request) answer {
		if n := s.arrived; n%97 < 24 || n%61 < 9 {
			return unavailable(usual)
		}
		return ok(usual)
	}},
	{name: "one of three zones is dark", load: come(60, 90, 10), timeout: time.Second, answer: func(s *service, _ *http.Request) answer {
		if s.arrived%3 == 0 && during(s.since(), 20, 60) {
			return answer{after: never}
		}
		return ok(usual)
	}},
	{name: "handshakes break", load: come(20, 90, 5), answer: func(s *service, req *http.Request) answer {
		switch u := s.luck(req); {
		case u < 0.2:
			return reset()
		case u < 0.3:
			return answer{after: usual, err: io.ErrUnexpectedEOF}
		}
		return ok(usual)
	}},
	{name: "a broken tenant", load: come(80, 60, 10), others: func(n int) bool { return n%20 < 13 }, answer: func(_ *service, req *http.Request) answer {
		if req.URL.Path == isOther {
			return answer{after: 40 * time.Millisecond, status: http.StatusInternalServerError}
		}
		return ok(usual)
	}},
	{name: "long polls beside short calls", load: come(40, 90, 30), others: func(n int) bool { return n%4 == 0 }, answer: func(s *service, req *http.Request) answer {
		switch {
		case during(s.since(), 30, 34):
			return unavailable(usual)
		case req.URL.Path == isOther:
			return ok(18 * time.Second)
		}
		return ok(usual)
	}},
	{name: "a job of 500 calls every 10 s", load: come(0, 60, 9), burst: 500, every: 10 * time.Second, processes: 10,
		limit: [2]float64{150, 100}, says: unavailable(usual)},
	{name: "clients that look at the clock", load: come(0, 60, 5), burst: 200, every: time.Second, processes: 40,
		limit: [2]float64{260, 60}, says: later(http.StatusTooManyRequests, "1")},
	{name: "a name moves to another address", load: come(40, 100, 20), could: 95, answer: func(s *service, _ *http.Request) answer {
		switch t := s.since(); {
		case during(t, 20, 40):
			return refused()
		case during(t, 40, 45):
			return unnamed()
		case during(t, 45, 60):
			return ok(300 * time.Millisecond)
		}
		return ok(usual)
	}},
	{name: "pauses longer than an attempt has", load: come(50, 60, 5), timeout: 500 * time.Millisecond, answer: func(s *service, _ *http.Request) answer {
		return ok(usual + max(0, 900*time.Millisecond-s.since()%(5*time.Second)))
	}},
	{name: "down, and says when to come back", load: come(50, 60, 8), could: 88.3, answer: func(s *service, _ *http.Request) answer {
		if during(s.since(), 15, 30) {
			return later(http.StatusServiceUnavailable, "4")
		}
		return ok(usual)
	}},
	{name: "elections stop the writes", load: come(60, 120, 10), others: func(n int) bool { return n%10 < 6 }, method: http.MethodPost, answer: func(s *service, req *http.Request) answer {
		if req.Method == http.MethodPost && s.since()%(20*time.Second) > 13*time.Second {
			return later(http.StatusServiceUnavailable, "1")
		}
		return ok(usual)
	}},
	{name: "begins while the service is down", load: come(20, 60, 20), answer: func(s *service, _ *http.Request) answer {
		if s.since() < 12*time.Second {
			return refused()
		}
		return ok(usual)
	}},
}

// pool returns how a pool of workers answers, whose answers take so long each. It does
// what it has accepted, also for callers who have gone.
func pool(workers int, takes time.Duration) answering {
	free := make([]queue, workers)
	return func(s *service, _ *http.Request) answer {
		next := &free[0]
		for i := range free {
			if free[i].free.Before(next.free) {
				next = &free[i]
			}
		}
		return ok(next.add(time.Duration((0.5 + s.rand.Float64()) * float64(takes))))
	}
}

// surprisesOfLoad are worlds for the limit of attempts at once, for what is slower than
// usual, and for limits of a rate.
var surprisesOfLoad = []surprise{
	{name: "a pool of 20 gets half as much again", load: come(300, 60, 2), could: 66.7, starts: func() answering { return pool(20, 100*time.Millisecond) }},
	{name: "a pool of 20 gets half as much again, after a minute", load: come(300, 120, 2), could: 83.3, starts: func() answering {
		quick, busy := pool(40, 100*time.Millisecond), pool(20, 100*time.Millisecond)
		return func(s *service, req *http.Request) answer {
			if s.since() < time.Minute {
				return quick(s, req)
			}
			return busy(s, req)
		}
	}},
	{name: "the database behind a cache is overloaded", load: come(200, 90, 1), could: 95.6, starts: func() answering {
		database := pool(4, 100*time.Millisecond)
		return func(s *service, req *http.Request) answer {
			if s.luck(req) < 0.15+0.1*min(1, s.since().Minutes()) {
				return database(s, req)
			}
			return ok(3 * time.Millisecond)
		}
	}},
	{name: "60 processes bring a third too much for half a minute", load: come(600, 90, 3), processes: 60, timeout: time.Second, could: 91.7, starts: func() answering {
		wide, narrow := pool(12, 15*time.Millisecond), pool(7, 15*time.Millisecond)
		return func(s *service, req *http.Request) answer {
			if during(s.since(), 30, 60) {
				return narrow(s, req)
			}
			return wide(s, req)
		}
	}},
	{name: "the service stops for 400 ms of every 3 s", load: come(70, 90, 2), timeout: time.Second, starts: func() answering {
		works := pool(1, 10*time.Millisecond)
		return func(s *service, req *http.Request) answer {
			a := works(s, req)
			a.after += max(0, 400*time.Millisecond-(s.since()+a.after)%(3*time.Second))
			return a
		}
	}},
	{name: "three kinds, and the mixture turns over", load: come(50, 180, 30), answer: func(s *service, req *http.Request) answer {
		u, turned := s.luck(req), min(1, s.since().Minutes()/2)
		switch kind := luck(s.seed, req.URL.Path, -1); {
		case kind < 0.7-0.6*turned:
			return ok(3 * time.Millisecond)
		case kind > 0.9-0.5*turned:
			return ok(4 * time.Second)
		case u < 0.2:
			return unavailable(80 * time.Millisecond)
		}
		return ok(80 * time.Millisecond)
	}},
	{name: "the network becomes slow, and loses one in thirty", load: come(100, 120, 5), timeout: time.Second, answer: func(s *service, req *http.Request) answer {
		switch u := s.luck(req); {
		case s.since() < 40*time.Second:
			return ok(usual)
		case u < 1./30:
			return answer{after: never}
		default:
			return ok(time.Duration((200 + 100*u) * float64(time.Millisecond)))
		}
	}},
	{name: "70 a second at a limit of 40 that says 2 s", load: come(70, 90, 6), could: 57.1, limit: [2]float64{40, 20}, says: later(http.StatusTooManyRequests, "2"),
		answer: func(s *service, _ *http.Request) answer {
			return ok(time.Duration((50 + 100*s.rand.Float64()) * float64(time.Millisecond)))
		}},
	{name: "a quota of 600 a minute", load: come(15, 240, 40), could: 83.3, starts: func() answering {
		used, minute := 0, 0
		return func(s *service, _ *http.Request) answer {
			if now := int(s.since().Minutes()); now > minute {
				used, minute = 0, now
			}
			if used++; used > 600 {
				return tooMany()
			}
			return ok(20 * time.Millisecond)
		}
	}},
}
