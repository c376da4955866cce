package wake_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control/wake"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/poll"
)

var errDown = errors.New("network is down")

// minutely waits a minute before each retry.
var minutely = backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}

// A link is a network that is down, and on which calls are made.
type link struct {
	mu    sync.Mutex
	up    bool
	err   error // while it is down; errDown if nil
	began time.Time
	at    []time.Duration // of the attempts
}

func newLink() *link { return &link{began: time.Now()} }

func (l *link) call(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Since(l.began))
	switch {
	case l.up:
		return nil
	case l.err != nil:
		return l.err
	}
	return errDown
}

// comesBack mends the link after d, and gives the signal.
func (l *link) comesBack(d time.Duration, s *wake.Signal) {
	time.AfterFunc(d, func() {
		l.mend()
		s.Wake()
	})
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = true
}

// forget forgets the attempts, and returns how many there were.
func (l *link) forget() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.at = nil }()
	return len(l.at)
}

func TestAWakeEndsTheWaitOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		l, p := newLink(), minutely
		var last backoff.Event
		p.Observer = func(_ context.Context, e backoff.Event) { last = e }
		l.comesBack(10*time.Second, &network)
		require.NoError(t, p.Do(network.Context(t.Context()), l.call))
		require.Len(t, l.at, 2)
		require.GreaterOrEqual(t, l.at[1], 10*time.Second)
		require.Less(t, l.at[1], 11*time.Second+1)
		require.Equal(t, l.at[1], last.Slept, "the observer hears how long it really slept")
		require.Equal(t, 2, last.Attempt)
	})
}

func TestAfterAWakeTheScheduleBeginsAnewAndTheLimitsDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		l := newLink()
		p := backoff.Policy{MaxAttempts: 12, Jitter: backoff.NoJitter}
		time.AfterFunc(40*time.Second, network.Wake) // 25.5 s after the start begins a wait of 25.6 s
		err := p.Do(network.Context(t.Context()), l.call)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Len(t, l.at, 12)
		require.Less(t, l.at[9]-40*time.Second, 100*time.Millisecond+1)
		require.Equal(t, 200*time.Millisecond, l.at[10]-l.at[9])
		require.Equal(t, 400*time.Millisecond, l.at[11]-l.at[10])
	})
}

func TestAThousandCallsThatAreWokenDoNotGoAtOnce(t *testing.T) {
	for name, p := range map[string]backoff.Policy{
		"full jitter":             {MaxAttempts: 9, Schedule: backoff.Exponential{Initial: 100 * time.Millisecond, Multiplier: 1000}},
		"a minute without jitter": minutely,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network wake.Signal
				ctx := network.Context(t.Context())
				var mu sync.Mutex
				var up atomic.Bool
				instants := map[time.Time]int{}
				var calls sync.WaitGroup
				for range 1000 {
					calls.Go(func() {
						p.Do(ctx, func(context.Context) error {
							if !up.Load() {
								return errDown
							}
							mu.Lock()
							defer mu.Unlock()
							instants[time.Now().Truncate(time.Millisecond)]++
							return nil
						})
					})
				}
				time.Sleep(5 * time.Second)
				up.Store(true)
				network.Wake()
				network.Wake() // which takes nothing of the spread
				time.Sleep(2 * time.Second)
				mu.Lock()
				most, all := 0, 0
				for _, n := range instants {
					most, all = max(most, n), all+n
				}
				mu.Unlock()
				require.Greater(t, all, 900, "some were about to go as it was")
				require.Less(t, most, 100)
				calls.Wait()
			})
		})
	}
}

func TestAWakeDoesNotEndWhatAServerAskedFor(t *testing.T) {
	for name, err := range map[string]error{
		"Retry-After": backoff.RetryAfter(errDown, 30*time.Second),
		"pushback":    backoff.Pushback(errDown, 30*time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network wake.Signal
				l := newLink()
				l.err = err
				l.comesBack(10*time.Second, &network)
				require.NoError(t, minutely.Do(network.Context(t.Context()), l.call))
				require.Equal(t, 30*time.Second, l.at[1], "and no longer")
			})
		})
	}
}

func TestAWakeDoesNotEndWhatABudgetAskedFor(t *testing.T) {
	for name, budget := range map[string]backoff.Budget{
		"a rate":     &limit.Rate{Limiter: rate.NewLimiter(rate.Every(30*time.Second), 1)},
		"a hold-off": new(pace.HoldOff),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network wake.Signal
				l, p := newLink(), minutely
				p.Budget = budget
				if h, ok := budget.(*pace.HoldOff); ok {
					h.Hold(30 * time.Second)
				}
				time.AfterFunc(10*time.Second, network.Wake)
				l.comesBack(45*time.Second, &network)
				require.NoError(t, p.Do(network.Context(t.Context()), l.call))
				last := l.at[len(l.at)-1]
				require.GreaterOrEqual(t, last, 45*time.Second)
				require.LessOrEqual(t, last, time.Minute)
				for i := 1; i < len(l.at) && name == "a rate"; i++ {
					require.GreaterOrEqual(t, l.at[i]-l.at[i-1], 30*time.Second-1, "but for a rounding of the limiter")
				}
				require.False(t, name == "a hold-off" && l.at[0] < 30*time.Second)
			})
		})
	}
}

// The first attempt waits for its token from the beginning, and the second one asks for
// its own when its backoff is over.
func TestAWakeGivesNobodyATokenBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		tokens := rate.NewLimiter(rate.Every(30*time.Second), 1)
		tokens.Allow()
		l := newLink()
		p := backoff.Policy{MaxAttempts: 2, Budget: &limit.Rate{Limiter: tokens}}
		for _, after := range []time.Duration{10, 40} {
			time.AfterFunc(after*time.Second, network.Wake)
		}
		require.Error(t, p.Do(network.Context(t.Context()), l.call))
		require.Equal(t, []time.Duration{30, 60}, []time.Duration{l.at[0].Round(time.Millisecond) / time.Second, l.at[1].Round(time.Millisecond) / time.Second})
	})
}

// slow is a budget that says once how long to wait: for a first attempt by Reserve, and
// for a retry by Pace.
type slow struct {
	backoff.BudgetDefaults
	paced bool
}

func (s *slow) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if a.First() {
		return backoff.Ticket{}, 30 * time.Second, true
	}
	return backoff.Ticket{Word: 1}, 0, true
}

func (s *slow) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	if t.Word == 0 || s.paced {
		return t, 0, true
	}
	s.paced = true
	return t, 30 * time.Second, true
}

func TestABudgetThatSaysOnceHowLongToWaitIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		l := newLink()
		p := backoff.Policy{MaxAttempts: 2, Budget: new(slow), Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		for _, after := range []time.Duration{10, 40} {
			time.AfterFunc(after*time.Second, network.Wake)
		}
		require.Error(t, p.Do(network.Context(t.Context()), l.call))
		require.Equal(t, []time.Duration{30 * time.Second, 61 * time.Second}, l.at)
	})
}

func TestAWakeIsNotKeptForLaterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		ctx := network.Context(t.Context())
		network.Wake()
		l := newLink()
		p := minutely
		p.MaxAttempts = 2
		require.Error(t, p.Do(ctx, l.call))
		require.Equal(t, time.Minute, l.at[1])
	})
}

func TestASignalWakesOnlyWhatIsUnderItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network, other wake.Signal
		p := minutely
		p.MaxAttempts = 2
		time.AfterFunc(10*time.Second, other.Wake)
		var none *wake.Signal
		none.Wake()
		for name, c := range map[string]struct {
			ctx  context.Context
			most time.Duration
		}{
			"of another":    {network.Context(t.Context()), time.Minute},
			"of none":       {none.Context(t.Context()), time.Minute},
			"inside it":     {network.Context(other.Context(t.Context())), 11 * time.Second},
			"its innermost": {other.Context(network.Context(t.Context())), 11 * time.Second},
		} {
			time.AfterFunc(10*time.Second, other.Wake)
			l := newLink()
			p.Do(c.ctx, l.call)
			require.LessOrEqual(t, l.at[1], c.most, name)
			require.Equal(t, c.most == time.Minute, l.at[1] == time.Minute, name)
		}
	})
}

func TestAWakeEndsTheWaitOfALoopAndOfAPoll(t *testing.T) {
	for name, run := range map[string]func(context.Context, *link) error{
		"supervisor": func(ctx context.Context, l *link) error {
			p := minutely
			p.MaxAttempts = 0
			return backoff.Supervisor{Policy: p}.Run(ctx, func(ctx context.Context) error {
				return backoff.Permanent(l.call(ctx))
			})
		},
		"loop": func(ctx context.Context, l *link) error {
			r := minutely.Start(ctx)
			for ctx := range r.Attempts() {
				err := l.call(ctx)
				if err == nil {
					return nil
				}
				r.Fail(err)
			}
			return r.Err()
		},
		"poll": func(ctx context.Context, l *link) error {
			p := minutely
			p.MaxElapsed = -1
			return poll.Until(ctx, p, func(ctx context.Context) (bool, error) { return l.call(ctx) == nil, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network wake.Signal
				l := newLink()
				ctx, cancel := context.WithTimeout(network.Context(t.Context()), time.Hour)
				defer cancel()
				if name == "supervisor" {
					l.err = errDown
					calls := l.call
					s := backoff.Supervisor{Policy: minutely}
					s.Policy.MaxAttempts = 0
					l.comesBack(10*time.Second, &network)
					s.Run(ctx, func(ctx context.Context) error {
						if err := calls(ctx); err != nil {
							return err
						}
						cancel()
						return nil
					})
				} else {
					l.comesBack(10*time.Second, &network)
					require.NoError(t, run(ctx, l))
				}
				require.Len(t, l.at, 2)
				require.LessOrEqual(t, l.at[1], 11*time.Second)
			})
		})
	}
}

// A budget that refuses makes a loop wait, too.
func TestAWakeEndsTheWaitOfALoopThatItsBudgetRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		var refuses atomic.Bool
		refuses.Store(true)
		began := time.Now()
		ctx, cancel := context.WithCancel(network.Context(t.Context()))
		defer cancel()
		s := backoff.Supervisor{Policy: minutely}
		s.Policy.MaxAttempts, s.Policy.Budget = 0, switched{no: &refuses}
		time.AfterFunc(10*time.Second, func() { refuses.Store(false); network.Wake() })
		s.Run(ctx, func(context.Context) error { cancel(); return nil })
		require.LessOrEqual(t, time.Since(began), 11*time.Second)
	})
}

// switched is a budget with a switch.
type switched struct {
	backoff.BudgetDefaults
	no *atomic.Bool
}

func (s switched) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, !s.no.Load()
}

// outage opens the circuit of a service, with calls that do not wait.
func outage(t *testing.T, s *guard.Service, l *link) {
	_, b := s.Parts()
	for b.State() != backoff.BreakerOpen {
		s.Do(guard.WithFailFast(t.Context()), backoff.Policy{MaxAttempts: 1}, l.call)
		time.Sleep(300 * time.Millisecond)
	}
	l.forget()
}

func TestAWakeLetsOneOfTheWaitingCallsGoAndTheOthersAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		s := guard.Service{Breaker: &backoff.Breaker{OpenFor: backoff.Constant(time.Hour), Jitter: backoff.NoJitter, ProbeSuccesses: 1}}
		l := newLink()
		outage(t, &s, l)
		ctx, cancel := context.WithTimeout(network.Context(t.Context()), 2*time.Hour)
		defer cancel()
		inFlight, most := 0, 0
		var mu sync.Mutex
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				require.NoError(t, s.Do(ctx, backoff.Policy{}, func(ctx context.Context) error {
					mu.Lock()
					inFlight++
					most = max(most, inFlight)
					err := l.call(ctx)
					first := err == nil && len(l.at) == 1
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					if first {
						require.Equal(t, 1, inFlight, "the probe goes alone")
					}
					inFlight--
					return err
				}))
			})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Empty(t, l.at)
		l.mend()
		before := time.Now()
		network.Wake()
		calls.Wait()
		require.Less(t, time.Since(before), 10*time.Second)
		require.Less(t, most, 25)
	})
}

func TestAWakeThatComesTooEarlyCostsTheServiceOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		var s guard.Service
		l := newLink()
		outage(t, &s, l)
		for range 20 * 60 { // the gaps are long by now
			s.Do(guard.WithFailFast(t.Context()), backoff.Policy{MaxAttempts: 1}, l.call)
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithTimeout(network.Context(t.Context()), 10*time.Minute)
		defer cancel()
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() { s.Do(ctx, backoff.Policy{}, l.call) })
		}
		time.Sleep(time.Second)
		synctest.Wait()
		l.forget()
		network.Wake()
		synctest.Wait()
		require.Equal(t, 1, l.forget())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		probes := l.forget()
		require.Greater(t, probes, 1, "the gaps are short again")
		require.Less(t, probes, 12)
		l.mend()
		calls.Wait()
	})
}

func TestAfterAWakeACircuitProbesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		ctx := network.Context(t.Context())
		b := backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Hour)}
		l := newLink()
		b.Do(ctx, l.call)
		require.ErrorIs(t, b.Do(ctx, l.call), backoff.ErrOpen)
		time.Sleep(time.Second)
		network.Wake()
		require.ErrorIs(t, b.Do(t.Context(), l.call), backoff.ErrOpen, "who is not under the signal")
		require.Equal(t, errDown, b.Do(ctx, l.call))
		require.ErrorIs(t, b.Do(ctx, l.call), backoff.ErrOpen)
		require.Len(t, l.at, 2)

		time.Sleep(time.Second)
		network.Wake()
		hung := make(chan error)
		go b.Do(ctx, func(context.Context) error { return <-hung })
		synctest.Wait()
		require.ErrorIs(t, b.Do(ctx, l.call), backoff.ErrOpen, "the probe is under way")
		time.Sleep(time.Second)
		network.Wake()
		l.mend()
		require.NoError(t, b.Do(ctx, l.call), "a probe that hangs holds nobody back")
		hung <- errDown
		require.NoError(t, b.Do(ctx, l.call))
		require.Equal(t, backoff.BreakerClosed, b.State())
	})
}

func TestAWakeDoesNotOpenWhatOthersClosed(t *testing.T) {
	for name, open := range map[string]func(*backoff.Breaker, context.Context){
		"by hand":  func(b *backoff.Breaker, _ context.Context) { b.Trip() },
		"by force": func(b *backoff.Breaker, _ context.Context) { b.Force(backoff.ModeForcedOpen) },
		"because the server said so": func(b *backoff.Breaker, ctx context.Context) {
			b.Do(ctx, func(context.Context) error { return backoff.RetryAfter(errDown, time.Minute) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network wake.Signal
				ctx := network.Context(t.Context())
				b := backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(2 * time.Minute)}
				open(&b, ctx)
				time.Sleep(time.Second)
				network.Wake()
				l := newLink()
				require.ErrorIs(t, b.Do(ctx, l.call), backoff.ErrOpen)
				time.Sleep(time.Minute + time.Minute/10) // and a tenth more, at most
				require.Equal(t, name == "because the server said so", b.Do(ctx, l.call) == errDown)
			})
		})
	}
}

func TestAWakeGoesThroughAllLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		ctx, cancel := context.WithTimeout(network.Context(t.Context()), time.Hour)
		defer cancel()
		l, s := newLink(), guard.Service{}
		loop := backoff.Supervisor{Policy: minutely}
		loop.Policy.MaxAttempts = 0
		call := minutely
		call.MaxAttempts = 3
		call.Budget = &backoff.RetryBudget{}
		l.comesBack(30*time.Second, &network)
		loop.Run(ctx, func(ctx context.Context) error {
			err := s.Do(ctx, call, l.call)
			if err == nil {
				cancel()
			}
			return err
		})
		require.LessOrEqual(t, l.at[len(l.at)-1], 31*time.Second)
	})
}

func TestWakesMayComeFromAnywhereAtAnyTime(t *testing.T) {
	var network wake.Signal
	ctx := network.Context(t.Context())
	p := backoff.Policy{MaxAttempts: 20, Schedule: backoff.Constant(time.Millisecond)}
	var all sync.WaitGroup
	var done atomic.Bool
	for range 4 {
		all.Go(func() {
			for !done.Load() {
				network.Wake()
			}
		})
	}
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			require.ErrorIs(t, p.Do(ctx, func(context.Context) error { return errDown }), backoff.ErrExhausted)
		})
	}
	calls.Wait()
	done.Store(true)
	all.Wait()
}
