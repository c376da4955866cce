package main

import (
	"context"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
	"github.com/gobackoff/backoff/internal/nightly"
)

// The processes that measure starts are of the test program.
func TestMain(m *testing.M) {
	if os.Getenv(inChild) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// small returns a setup of a few seconds, with the ratios of the page's.
func small() setup {
	s := usual(80)
	s.Slots, s.Queue, s.Ports, s.Processes = 4, 500, 4, 2
	s.From, s.For, s.Horizon = 2*time.Second, time.Second, 4*time.Second
	return s
}

func TestARunCountsEveryCallAndEveryAttempt(t *testing.T) {
	s := small()
	for _, name := range []string{"backoffhttp", "hand"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := measure(s, name)
			require.NoError(t, err)
			calls, good, lost := sum(r.Fleet.Calls), sum(r.Fleet.Good), sum(r.Fleet.Lost)
			require.EqualValues(t, len(s.arrivals()), calls)
			require.LessOrEqual(t, good+lost, calls)
			require.Positive(t, good)
			v := &r.Service
			require.LessOrEqual(t, 0.98*float64(v.Arrived.Load()), sum(r.Fleet.Attempts), "but for those sent as the run ends")
			require.LessOrEqual(t, v.Done.Load()+v.Refused.Load(), v.Arrived.Load())
			require.LessOrEqual(t, good, float64(v.Done.Load()-v.Abandoned.Load()))
			require.Less(t, sum(r.Fleet.Good[2:3]), sum(r.Fleet.Calls[2:3])*0.9, "in the dip")
			require.Positive(t, r.FleetCPU)
			require.Positive(t, r.ServiceCPU)
			require.NotEmpty(t, r.Machine)
			t.Log(r)
		})
	}
}

// The definitions are the simulator's: what the simulator counted in one run
// gives the figures that it says.
func TestTheFiguresAreThoseOfTheSimulator(t *testing.T) {
	for _, name := range []string{"backoffhttp", "none", "hand"} {
		s := small()
		s.Slots, s.Horizon = 20, 20*time.Second
		results, err := sim.Compare(s.scenario(), []sim.Client{clientNamed(name).model(s)}, sim.Options{Seeds: 1, First: s.Seed})
		require.NoError(t, err)
		r := &run{Client: name, Setup: s}
		calls := make([]count, seconds(s.Horizon))
		for _, at := range s.arrivals() {
			calls[at/time.Second].Add(1)
		}
		for i, point := range results[0].Series {
			require.EqualValues(t, point.Calls, calls[i].Load(), "the same calls come")
			for counts, n := range map[*[]count]float64{&r.Fleet.Calls: point.Calls, &r.Fleet.Good: point.Good.Mean, &r.Fleet.Lost: point.Lost, &r.Fleet.Attempts: point.Attempts.Mean} {
				*counts = append(*counts, count{})
				(*counts)[i].Store(int64(n))
			}
		}
		got, want := r.figures(), simulated(results[0])
		require.Equal(t, want.recovery, got.recovery, name)
		require.InDelta(t, want.attempts, got.attempts, 1e-9, name)
		require.InDelta(t, want.success, got.success, 0.001, name)
	}
}

// Only nightly, because the simulations take half a minute, all of the page and
// the picture are compared.
func TestThePageIsWhatTheKeptRunsGive(t *testing.T) {
	runs, err := load("testdata/runs.json")
	require.NoError(t, err)
	if len(runs) == 0 {
		t.Log("nothing has been measured yet")
		return
	}
	mod := docpagetest.Read(t, "../go.mod")
	dir := t.TempDir()
	if nightly.On {
		require.NoError(t, write(dir, runs, mod))
		for _, name := range []string{"field.md", "field.svg"} {
			require.True(t, docpagetest.Read(t, filepath.Join(dir, name)) == docpagetest.Read(t, "../../../docs/results/"+name), "%s: make field-page writes it anew", name)
		}
		return
	}
	require.Len(t, runs, 2*len(clients))
	for _, r := range runs {
		if r.Client == "none" {
			require.NoError(t, write(dir, []*run{r}, mod))
			_, row, _ := strings.Cut(docpagetest.Read(t, filepath.Join(dir, "field.md")), "|---|---|---|---|---|---|---|---|\n")
			row, _, _ = strings.Cut(row, "\n")
			require.Contains(t, docpagetest.Read(t, "../../../docs/results/field.md"), row)
		}
	}
}

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
