package main

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// silence is a transport that never answers, unless it refuses, and notes when
// attempts begin and end.
type silence struct {
	refuses      bool
	mu           sync.Mutex
	begun, ended []time.Time
}

func (s *silence) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.begun = append(s.begun, time.Now())
	s.mu.Unlock()
	if s.refuses {
		return &http.Response{StatusCode: 503, Body: http.NoBody, Header: http.Header{}, Request: req}, nil
	}
	<-req.Context().Done()
	s.mu.Lock()
	s.ended = append(s.ended, time.Now())
	s.mu.Unlock()
	return nil, context.Cause(req.Context())
}

// process returns what the simulator makes of a client.
func process(c *client, s setup) sim.Process {
	return c.model(s).New(sim.Environment{Layer: 1, Layers: 1})
}

func TestEveryAttemptTimesOutAndTheNextComesWhenTheModelSays(t *testing.T) {
	for i := range clients {
		c := &clients[i]
		t.Run(c.name, func(t *testing.T) {
			s := usual(80)
			policy := process(c, s).Policy
			want := attemptsOf(c)
			for range 20 {
				synctest.Test(t, func(t *testing.T) {
					var base silence
					require.Error(t, c.calls(&base, s)(t.Context()))
					synctest.Wait()
					require.Len(t, base.begun, want)
					for n, end := range base.ended {
						require.WithinDuration(t, base.begun[n].Add(s.Timeout), end, time.Millisecond)
						if n+1 < want {
							low, high := waits(policy, n+1)
							wait := base.begun[n+1].Sub(end)
							require.GreaterOrEqual(t, wait, low-time.Millisecond)
							require.LessOrEqual(t, wait, high+time.Millisecond)
						}
					}
				})
			}
		})
	}
}

// attemptsOf returns how many attempts the first call makes.
func attemptsOf(c *client) int {
	if c.name == "none" {
		return 1
	}
	return 4
}

func TestARefusalIsRetried(t *testing.T) {
	for i := range clients {
		synctest.Test(t, func(t *testing.T) {
			base := silence{refuses: true}
			require.Error(t, clients[i].calls(&base, usual(80))(t.Context()))
			require.Len(t, base.begun, attemptsOf(&clients[i]), clients[i].name)
		})
	}
}

// waits returns between what bounds a policy waits before a retry.
func waits(p backoff.Policy, retry int) (low, high time.Duration) {
	schedule, jitter := p.Schedule, p.Jitter
	if schedule == nil {
		schedule = backoff.Exponential{}
	}
	if jitter == nil {
		jitter = backoff.UniformJitter(0, 1)
	}
	d := schedule.Delay(retry)
	return jitter(d, 0, 0), jitter(d, 0, math.Nextafter(1, 0))
}
