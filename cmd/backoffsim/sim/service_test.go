package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
)

// timeInSystem returns the mean time that an attempt waits and is served.
func timeInSystem(t *testing.T, load float64, servers int, service Distribution) float64 {
	t.Helper()
	s := Scenario{Server: Server{Servers: servers, Service: service}, Horizon: 1000 * time.Second}
	s.Rate = load * s.Server.Capacity()
	return run(t, s, nightly.Size(2, 20), None())[0].Mean.Mean
}

func TestQueuesWaitAsTheoryHasIt(t *testing.T) {
	const mean = 20 * time.Millisecond // of a service time
	unit := mean.Seconds()
	require.InEpsilon(t, unit/(1-.7), timeInSystem(t, .7, 1, Exponential(mean)), .06, "M/M/1")
	require.InEpsilon(t, unit*(1+.7/(2*(1-.7))), timeInSystem(t, .7, 1, Exact(mean)), .04, "M/D/1")
	busy := .7 * 4 // Erlang's C formula, for four servers
	last := math.Pow(busy, 4) / 24 / (1 - .7)
	sum := 1 + busy + busy*busy/2 + math.Pow(busy, 3)/6
	require.InEpsilon(t, unit*(1+last/(sum+last)/(4*(1-.7))), timeInSystem(t, .7, 4, Exponential(mean)), .04, "M/M/4")
}

func TestServiceTimesHaveTheQuantilesAndMeansTheyWereGiven(t *testing.T) {
	logNormal, err := LogNormal(20*time.Millisecond, 300*time.Millisecond)
	require.NoError(t, err)
	require.InEpsilon(t, .020, logNormal.Quantile(.5).Seconds(), 1e-6)
	require.InEpsilon(t, .300, logNormal.Quantile(.99).Seconds(), 1e-6)
	r := rand.New(rand.NewPCG(1, 1))
	for _, d := range []Distribution{logNormal, Exponential(time.Second), Exact(time.Second), {}} {
		const n = 200_000
		all := make([]time.Duration, n)
		var sum float64
		for i := range all {
			all[i] = d.Draw(r)
			sum += all[i].Seconds()
		}
		slices.Sort(all)
		require.InDelta(t, d.Mean().Seconds(), sum/n, .02*d.Mean().Seconds())
		for _, q := range []float64{.1, .5, .9, .99} {
			require.InDelta(t, d.Quantile(q).Seconds(), all[int(q*n)].Seconds(), .03*d.Quantile(q).Seconds(), "at %v", q)
		}
	}
}

func TestImpossibleServiceTimesAreRefused(t *testing.T) {
	for _, c := range []struct {
		p50, p99 time.Duration
		want     string
	}{
		{0, time.Second, "p50 is 0s and p99 1s, want 0 < p50 <= p99"},
		{-1, time.Second, "p50 is -1ns"},
		{time.Second, time.Millisecond, "p50 is 1s and p99 1ms"},
		{time.Second, 100 * time.Hour, "make a mean of"},
	} {
		_, err := LogNormal(c.p50, c.p99)
		require.ErrorContains(t, err, c.want)
	}
}

func TestAServerAnswersEachAttemptInItsTime(t *testing.T) {
	type attempt struct {
		at, deadline, latency time.Duration
		err                   error
	}
	for name, c := range map[string]struct {
		server   Server
		attempts []attempt
	}{
		"in order, up to a limit, and slower in a dip": {Server{Limit: 2}, []attempt{
			{0, forever, 10 * ms, nil}, {0, forever, 20 * ms, nil}, {0, forever, 0, ErrFull},
			{10 * ms, forever, 20 * ms, nil}, // the first has left
			{1500 * ms, forever, 20 * ms, nil},
		}},
		"a rejection is free": {Server{Limit: 1}, []attempt{
			{0, forever, 10 * ms, nil}, {0, forever, 0, ErrFull}, {0, forever, 0, ErrFull}, {10 * ms, forever, 10 * ms, nil},
		}},
		"a rejection costs half": {Server{Limit: 1, RejectCost: .5}, []attempt{
			{0, forever, 10 * ms, nil}, {0, forever, 0, ErrFull}, {0, forever, 0, ErrFull}, {10 * ms, forever, 20 * ms, nil},
		}},
		"expired work is dropped for nothing": {Server{DropExpired: true}, []attempt{
			{0, forever, 10 * ms, nil}, {0, forever, 20 * ms, nil}, {0, forever, 30 * ms, nil},
			{0, 30 * ms, forever, nil}, {0, 31 * ms, 40 * ms, nil},
		}},
	} {
		c.server.Service = Exact(10 * ms)
		q := newServerState(c.server, Fault{From: time.Second, For: time.Second, Capacity: .5})
		for i, want := range c.attempts {
			latency, err := q.Serve(want.at, want.deadline, nil)
			require.ErrorIs(t, err, want.err, "%s: attempt %d", name, i)
			require.Equal(t, want.latency, latency, "%s: attempt %d", name, i)
		}
	}
}

// If rejections cost something, a short queue does not protect the server from
// clients that retry.
func TestAShortQueueHelpsOnlyWhereRejectingIsCheap(t *testing.T) {
	s := Dip()
	s.Server.Limit = 500
	naive := Naive()
	require.Less(t, run(t, s, 1, naive)[0].Recovery.Mean, 3.0)
	s.Server.RejectCost = .5
	require.Equal(t, 1, run(t, s, 1, naive)[0].Never)
}

func TestAServerThatIsDownRefusesAndAsksForTime(t *testing.T) {
	s := Scenario{
		Every: time.Second, Horizon: 200 * time.Second, Until: time.Second,
		Server: Server{RetryAfter: time.Minute}, Fault: Fault{For: 30 * time.Second, Down: true},
	}
	r := run(t, s, 1, Default())[0]
	require.Equal(t, 1.0, r.Success.Mean)
	require.InDelta(t, 63, r.Mean.Mean, 3.1, "a minute, and up to a tenth more")
	require.Equal(t, 2, r.Attempts)
}

// accepted returns how many of the attempts that come every 10 ms, from one time
// to another, a server accepts. It answers the others with "too much".
func accepted(t *testing.T, q *serverState, from, to time.Duration) (n int) {
	t.Helper()
	for at := from; at < to; at += 10 * time.Millisecond {
		_, err := q.Serve(at, forever, nil)
		if err == nil {
			n++
			continue
		}
		require.ErrorIs(t, err, ErrTooMuch)
	}
	return n
}

func TestARateIsAcceptedAndABurstAfterAPause(t *testing.T) {
	q := newServerState(Server{Rate: 10, Burst: 20}, Fault{})
	require.Equal(t, 20+9, accepted(t, q, 0, time.Second), "the last of the ten comes at the end of the second")
	require.Equal(t, 100, accepted(t, q, time.Second, 11*time.Second))
	require.Equal(t, 20+9, accepted(t, q, time.Hour, time.Hour+time.Second))

	one := newServerState(Server{Rate: 10}, Fault{})
	require.Equal(t, 10, accepted(t, one, 0, time.Second), "without a Burst it is one")
	require.Equal(t, 10, accepted(t, one, time.Hour, time.Hour+time.Second))
}

func TestADipLowersTheRateThatIsAccepted(t *testing.T) {
	q := newServerState(Server{Rate: 50}, Fault{From: 10 * time.Second, For: 10 * time.Second, Capacity: .1})
	require.Equal(t, 500, accepted(t, q, 0, 10*time.Second))
	require.Equal(t, 50, accepted(t, q, 10*time.Second, 20*time.Second))
	require.Equal(t, 500, accepted(t, q, 20*time.Second, 30*time.Second))
}

func TestALyingServerSaysTooMuchWheneverItRejects(t *testing.T) {
	server := Server{Service: Exact(10 * time.Millisecond), Limit: 1, Throttles: true, Errors: 1}
	for _, server.RetryAfter = range []time.Duration{0, time.Minute} {
		q := newServerState(server, Fault{From: time.Second, For: time.Second, Down: true})
		_, err := q.Serve(0, forever, rand.New(rand.NewPCG(1, 1)))
		require.ErrorIs(t, err, ErrFault, "what it does not reject may fail")
		for _, at := range []time.Duration{0, time.Second} {
			_, err = q.Serve(at, forever, nil)
			require.ErrorIs(t, err, ErrTooMuch, "when it is full, and when it is down")
		}
	}
	_, err := newServerState(Server{}, Fault{For: 1, Down: true}).Serve(0, forever, nil)
	require.NotErrorIs(t, err, ErrTooMuch, "an honest server that is down says so")
}

func TestRefusalsAreCountedAndAskForTheirWait(t *testing.T) {
	s := RateLimit()
	s.Users, s.Calls, s.Server.Burst, s.Server.RetryAfter = 1, 3, 2, time.Minute
	r := run(t, s, 1, exactly(backoff.Policy{}))[0]
	require.Equal(t, 1.0, r.Success.Mean)
	require.Equal(t, 4, r.Attempts)
	require.Equal(t, 1./4, r.Throttled.Mean)
	require.InDelta(t, 63, r.Drain.Mean, 3.1, "a minute, and up to a tenth more")
}

// What the service rejects with "too much" is throttled, an attempt that timed
// out is retryable, and of all else nothing is known.
func TestSimulatedFailuresHaveTheLimitsOfTheirClass(t *testing.T) {
	s := Scenario{Every: time.Second, Horizon: 100 * time.Second, Server: Server{}, Fault: Fault{For: 100 * time.Second, Down: true}}
	for _, s.Server.Throttles = range []bool{true, false} {
		p := backoff.Policy{MaxAttempts: 1, ByClass: map[backoff.Class]backoff.ClassLimits{
			backoff.ClassThrottled: {MaxAttempts: 3, Schedule: backoff.Constant(0)},
			backoff.ClassUnknown:   {MaxAttempts: 2, Schedule: backoff.Constant(0)},
		}}
		want := 2
		if s.Server.Throttles {
			want = 3
		}
		r := run(t, s, 1, NewClient("", p, nil, nil))[0]
		require.Equal(t, float64(want), r.Amplification[0].Mean)
	}
}

func TestErrorsComeAsOftenAsTheyAreSaidTo(t *testing.T) {
	s := Scenario{Every: time.Millisecond, Horizon: 60 * time.Second, Server: Server{Errors: .2}, Fault: Fault{From: 20 * time.Second, For: 20 * time.Second, Errors: .6}}
	s.To = 20 * time.Second
	require.InDelta(t, .8, run(t, s, 1, None())[0].Success.Mean, .01)
	s.From, s.To = 20*time.Second, 40*time.Second
	require.InDelta(t, .4, run(t, s, 1, None())[0].Success.Mean, .01)
}

func TestASimulatedTimeoutIsAnAttemptTimeout(t *testing.T) {
	require.ErrorIs(t, ErrTimeout, backoff.ErrAttemptTimeout)
	require.True(t, backoff.Policy{}.Retryable(ErrTimeout))
	require.ErrorContains(t, ErrTimeout, "simulated timeout")
}

func TestTracesAreRead(t *testing.T) {
	const second = time.Second
	for text, want := range map[string]Trace{
		"t,count\n0,5\n10,0\n20,7\n": {{0, 10 * second, 5}, {10 * second, 10 * second, 0}, {20 * second, 10 * second, 7}},
		"100,1\n100.5,2":             {{0, second / 2, 1}, {second / 2, second / 2, 2}},
		"0,9":                        {{0, second, 9}},
		"\ufeff# a comment\n\nt , count\r\n 0 , 3 \r\n": {{0, second, 3}},
		"5\n5\n7.25\n": {{At: 0, Count: 1}, {At: 0, Count: 1}, {At: 2250 * time.Millisecond, Count: 1}},
		"2026-01-01T00:00:00Z\n2026-01-01T00:00:01.5Z": {{At: 0, Count: 1}, {At: 1500 * time.Millisecond, Count: 1}},
	} {
		got, err := ParseTrace(strings.NewReader(text))
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

func TestBadLinesOfATraceAreRefusedByTheirNumber(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "no calls in 0 lines",
		"t,count\n":              "no calls in 1 lines",
		"0,0\n1,0\n":             "no calls in 2 lines",
		"t,count\nx,1\n":         `line 2: time is "x", want seconds or RFC 3339`,
		"0,1\n# c\n1,-1\n":       `line 3: count is "-1", want a whole number, 0 or more`,
		"0,1\n1,1.5\n":           `line 2: count is "1.5"`,
		"0,1\n1,\n":              `line 2: count is ""`,
		"0,1\n1\n":               "line 2: 1 columns, and 2 before",
		"0\n1,1\n":               "line 2: 2 columns, and 1 before",
		"0,1,2\n":                "line 1: 3 columns, want t or t,count",
		"5,1\n4,1\n":             `line 2: time "4" is before that of the line before`,
		"5,1\n5,1\n":             `line 2: time "5" is that of the line before`,
		"0,1\nNaN,1\n":           `line 2: time is "NaN"`,
		"0,1\n1e300,1\n":         `line 2: time is "1e300"`,
		"0,1\n99999999,1\n":      "line 2: 27777h46m39s after the first line, want at most a year",
		"0,99999999\n1,2\n":      "line 2: more than 100000000 calls",
		strings.Repeat("1", 1e5): "line 1: ",
	} {
		_, err := ParseTrace(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%.40q", text)
		require.ErrorContains(t, err, "trace: ")
	}
}

func FuzzParseTrace(f *testing.F) {
	for _, text := range []string{"t,count\n0,5\n10,0\n", "1\n2\n2\n", "2026-01-01T00:00:00Z,4\n", "0,1\n-1,1", "a\nb", "1e11,1\n2e11,1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ParseTrace(strings.NewReader(text))
		if err != nil {
			require.Nil(t, trace)
			return
		}
		require.Positive(t, trace.calls())
		require.Zero(t, trace[0].At)
		s := Scenario{Trace: trace, Horizon: max(time.Second, min(trace.end()+1, 720*time.Hour))}
		require.NoError(t, s.checkTrace(), "what is read can be replayed")
	})
}

// After the end of recorded traffic there are no calls that could succeed.
func TestAServiceThatIsFastAgainOnlyAfterTheTrafficEndsHasNotRecovered(t *testing.T) {
	s := Dip()
	s.Rate, s.Trace = 0, Trace{{For: 50 * time.Second, Count: 50 * 40}}
	s.Server.Service, s.Processes = Exponential(20*time.Millisecond), 1
	s.Fault.From, s.Horizon = 10*time.Second, 150*time.Second
	r := run(t, s, 2, Naive(), None())
	require.Equal(t, 2, r[0].Never)
	s.Trace = Trace{{For: 140 * time.Second, Count: 140 * 40}}
	require.Zero(t, run(t, s, 2, None())[0].Never)
}
