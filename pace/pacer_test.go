package pace_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/internal/results"
	"github.com/gobackoff/backoff/pace"
)

var (
	errTooMuch = backoff.OfClass(errors.New("too much"), backoff.ClassThrottled)

	firstAttempt    = backoff.Attempt{Number: 1, Paced: true}
	aRetry          = backoff.Attempt{Number: 2, Paced: true}
	aThrottledRetry = backoff.Attempt{Number: 2, Class: backoff.ClassThrottled, Paced: true}
	tooMuch         = backoff.Result{Failed: true, Class: backoff.ClassThrottled}
)

// slowed returns a Pacer of a program that made so many calls a second for five
// seconds, and was then refused four times. Its first retry has not gone.
func slowed(perSecond int) *pace.Pacer {
	p := called(perSecond)
	refuse(p, 4)
	return p
}

// called returns a Pacer of a program that made so many calls a second for five
// seconds. It is for a bubble, or for 0.
func called(perSecond int) *pace.Pacer {
	p := new(pace.Pacer)
	for range 5 * perSecond {
		time.Sleep(time.Second / time.Duration(perSecond))
		p.Done(backoff.Ticket{}, backoff.Result{})
	}
	return p
}

// refuse reports that calls were refused that nobody asked for.
func refuse(p *pace.Pacer, calls int) {
	for range calls {
		p.Done(backoff.Ticket{}, tooMuch)
	}
}

// Pacers and HoldOffs pass the tests that backofftest has for Budgets.
func TestThePacesKeepTheContractOfABudget(t *testing.T) {
	backofftest.Budget(t, func() backoff.Budget { return new(pace.Pacer) })
	backofftest.Budget(t, func() backoff.Budget { return slowed(0) })
	backofftest.Budget(t, func() backoff.Budget { return new(pace.HoldOff) })
}

// bubble runs a test under a clock of its own.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// together runs f on n goroutines, and returns when all have ended.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// askAgain asks a budget whether it is the turn of a ticket, which it must keep.
func askAgain(t *testing.T, b backoff.Budget, ticket backoff.Ticket) (backoff.Ticket, time.Duration) {
	t.Helper()
	ticket, wait, ok := b.Pace(ticket)
	require.True(t, ok)
	return ticket, wait
}

// rateOf returns how many calls a second a Pacer lets go.
func rateOf(p *pace.Pacer) float64 {
	perSecond, _ := p.Limit()
	return perSecond
}

// waitingIn returns how many calls wait for a Pacer.
func waitingIn(p *pace.Pacer) int {
	_, waiting := p.Limit()
	return waiting
}

// reserve asks a budget for an attempt, which it must grant.
func reserve(t *testing.T, b backoff.Budget, a backoff.Attempt) (backoff.Ticket, time.Duration) {
	t.Helper()
	ticket, wait, ok := b.Reserve(a)
	require.True(t, ok)
	return ticket, wait
}

// queue asks for n first attempts.
func queue(t *testing.T, p *pace.Pacer, n int) (tickets []backoff.Ticket) {
	t.Helper()
	for range n {
		ticket, _ := reserve(t, p, firstAttempt)
		tickets = append(tickets, ticket)
	}
	return tickets
}

func failing(context.Context) error { return errors.New("connection cut") }

func giveBack(p *pace.Pacer, tickets ...backoff.Ticket) {
	for _, ticket := range tickets {
		p.Done(ticket, backoff.Result{NotSent: true})
	}
}

// turn reports whether it is the turn of a ticket.
func turn(t *testing.T, p *pace.Pacer, ticket backoff.Ticket) bool {
	t.Helper()
	_, wait := askAgain(t, p, ticket)
	return wait == 0
}

func passed(t *testing.T, p *pace.Pacer, tickets []backoff.Ticket) (n int) {
	for _, ticket := range tickets {
		if turn(t, p, ticket) {
			n++
		}
	}
	return n
}

// The budget inside hears how long attempts took, and of those that timed out,
// whoever granted them.
func TestTheBudgetOfAPacerFeelsStrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(pace.Pacer)
		calls := backoff.Policy{Budget: p, MaxAttempts: 1, AttemptTimeout: time.Second}
		latency := 10 * time.Millisecond
		call := func() {
			_ = calls.Do(t.Context(), func(ctx context.Context) error {
				select {
				case <-time.After(latency):
				case <-ctx.Done():
				}
				return ctx.Err()
			})
		}
		for range 200 {
			call()
		}
		require.False(t, p.Stats().Strained)
		latency = time.Minute
		for range 20 {
			call()
		}
		require.True(t, p.Stats().Strained)
		require.Zero(t, p.Stats().Allowed)
		require.True(t, isCalm(p))
	})
}

// isCalm reports whether no call waits for a turn.
func isCalm(p *pace.Pacer) bool { return math.IsInf(rateOf(p), 1) }

func TestAPacerIsItsRetryBudgetUntilTheFirstThrottledAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, plain := new(pace.Pacer), new(backoff.RetryBudget)
		for range 100 {
			p.Done(backoff.Ticket{}, backoff.Result{})
			plain.Done(backoff.Ticket{}, backoff.Result{})
			require.True(t, isCalm(p))
			_, _, want := plain.Reserve(aRetry)
			_, wait, ok := p.Reserve(aRetry)
			require.Equal(t, want, ok)
			require.Zero(t, wait)
		}
		require.Equal(t, plain.Stats(), p.Stats())
		require.True(t, isCalm(p))
		require.Zero(t, waitingIn(p))
	})
}

// A step of a Pacer's life: after a while, some attempts end in the same way, one
// after the other.
type step struct {
	sleep  time.Duration
	times  int
	result backoff.Result
	sent   bool // they ask first; otherwise they were sent before calls were paced
	asked  int  // so many ask besides, and do not end
	rate   float64
}

// notPaced is the rate of a Pacer while calls are not paced.
var notPaced = math.Inf(1)

func TestTheRateOfAPacerThroughItsLife(t *testing.T) {
	var (
		success = backoff.Result{}
		late    = backoff.Result{Failed: true, TimedOut: true}
		failed  = backoff.Result{Failed: true}
		ended   = backoff.Result{Failed: true, Canceled: true}
		notSent = backoff.Result{NotSent: true}
		ofOne   = backoff.Result{Failed: true, Class: backoff.ClassOverloaded}
	)
	for name, c := range map[string]struct {
		before int // successes a second, for five seconds
		life   []step
	}{
		"pacing starts with the fourth refusal and ends after ten quiet seconds": {100, []step{
			{times: 3, result: tooMuch, rate: notPaced},
			{times: 1, result: tooMuch, rate: 75},
			{sleep: 10*time.Second - 1, rate: 75},
			{sleep: 1, rate: notPaced},
		}},
		"a throttled response lowers the rate by a quarter": {100, []step{
			{times: 4, result: tooMuch, rate: 75},
			{sleep: time.Second, times: 1, result: tooMuch, sent: true, rate: 56.25},
		}},
		"so does a timeout, and other outcomes do not": {100, []step{
			{times: 4, result: tooMuch, rate: 75},
			{sleep: time.Second, times: 1, result: failed, sent: true, rate: 75},
			{times: 1, result: ended, sent: true, rate: 75},
			{times: 1, result: notSent, sent: true, rate: 75},
			{times: 1, result: ofOne, sent: true, rate: 75},
			{times: 1, result: late, sent: true, rate: 56.25},
		}},
		"neither a timeout nor the refusal of one request starts pacing": {0, []step{
			{times: 1, result: late, rate: notPaced},
			{times: 1, result: ofOne, rate: notPaced},
		}},
		"one refusal of a program that has become slow starts it": {20, []step{
			{times: 3, result: tooMuch, rate: notPaced},
			{sleep: 11 * time.Second, times: 1, result: tooMuch, rate: 0.75 * 15 / 14.5}, // 15 calls in 14.5 s
		}},
		"the lowest rate is a 200th of the usual one": {200, []step{
			{times: 4, result: tooMuch, rate: 150},
			{sleep: 4 * time.Second, times: 1, result: tooMuch, sent: true, rate: 112.5},
			{sleep: 4 * time.Second, times: 30, result: tooMuch, sent: true, rate: 1},
		}},
		"the usual rate is counted for a second after the first refusal": {0, []step{
			{times: 3, result: tooMuch, rate: 0.75},
			{asked: 100, rate: 0.75},
			{times: 1, result: tooMuch, rate: 75},
		}},
		"after four refusals within a second the rate of a program that has rested climbs": {1, []step{
			{sleep: 10 * time.Second, rate: notPaced},
			{times: 3, result: tooMuch, rate: 0.75 * 5 / 14},
			{times: 1, result: tooMuch, rate: 10},
			{sleep: 100 * time.Millisecond, times: 1, result: success, sent: true, rate: 14},
		}},
		"but not if the fourth comes after that second": {1, []step{
			{sleep: 10 * time.Second, rate: notPaced},
			{times: 3, result: tooMuch, rate: 0.75 * 5 / 14},
			{sleep: time.Second, times: 1, result: tooMuch, rate: 0.75 * 5 / 14},
		}},
		"nor again once the rate has fallen": {1, []step{
			{sleep: 10 * time.Second, rate: notPaced},
			{times: 4, result: tooMuch, rate: 10},
			{sleep: 100 * time.Millisecond, times: 2, result: tooMuch, sent: true, rate: 2.4},
			{times: 8, result: tooMuch, rate: 2.4},
		}},
		"the first refusal of a program's first calls is forgotten if others succeed": {0, []step{
			{times: 1, result: tooMuch, rate: 0.75},
			{times: 12, result: success, asked: 12, rate: notPaced},
			{times: 2, result: tooMuch, rate: notPaced},
			{times: 1, result: tooMuch, rate: 10},
		}},
		"a success raises the rate fast to the goal, and slowly from there": {4, []step{
			{times: 4, result: tooMuch, rate: 3},
			{times: 1, result: success, rate: 3.5},
			{times: 1, result: success, rate: 4},
			{times: 1, result: success, rate: 4.4},
			{times: 1, result: success, rate: 4.84},
		}},
		"each fall takes a tenth off the goal": {4, []step{
			{times: 4, result: tooMuch, rate: 3},
			{sleep: time.Second, times: 1, result: tooMuch, sent: true, rate: 2.25},
			{times: 1, result: success, rate: 2.75},
			{times: 1, result: success, rate: 3.25},
			{times: 1, result: success, rate: 3.6},
			{times: 1, result: success, rate: 3.96},
		}},
	} {
		bubble(t, name, func(t *testing.T) {
			p := called(c.before)
			for i, step := range c.life {
				for range max(step.times, 1) {
					time.Sleep(step.sleep)
					var ticket backoff.Ticket
					if step.sent {
						ticket = queue(t, p, 1)[0]
					}
					if step.times > 0 {
						p.Done(ticket, step.result)
					}
				}
				queue(t, p, step.asked)
				perSecond := rateOf(p)
				same := perSecond == step.rate || math.Abs(perSecond-step.rate) < 1e-9
				require.True(t, same, "step %d: %v", i, perSecond)
			}
		})
	}
}

// A service may throttle a few calls whatever the rate is, such as those of one
// of its many keys.
func TestAFewThrottledAnswersAmongManyHardlyLowerTheRate(t *testing.T) {
	for _, c := range []struct {
		successes int
		left      float64
	}{{5, 0.75}, {10, 0.875}, {50, 0.975}} {
		synctest.Test(t, func(t *testing.T) {
			p := slowed(100)
			for _, ticket := range queue(t, p, c.successes) {
				for !turn(t, p, ticket) {
					time.Sleep(10 * time.Millisecond)
				}
				p.Done(ticket, backoff.Result{})
			}
			time.Sleep(time.Second)
			ticket := queue(t, p, 1)[0]
			before := rateOf(p)
			p.Done(ticket, tooMuch)
			require.InDelta(t, c.left, rateOf(p)/before, 0.001, "%d successes", c.successes)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := called(100)
		for range 8 { // that have nothing to do with each other
			refuse(p, 1)
			require.True(t, isCalm(p))
			for range 1100 {
				time.Sleep(10 * time.Millisecond)
				p.Done(backoff.Ticket{}, backoff.Result{})
			}
		}
	})
}

// Each refusal of a slow program counts, also in a wait that the service asked for.
func TestASlowProgramComesBackSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := called(3), time.Now()
		for time.Since(began) < time.Minute {
			ticket := queue(t, p, 1)[0]
			for !turn(t, p, ticket) {
				time.Sleep(50 * time.Millisecond)
			}
			p.Done(ticket, backoff.Result{Failed: true, Class: backoff.ClassThrottled, RetryAfter: 2*time.Minute - time.Since(began)})
		}
		require.Less(t, rateOf(p), .5)
	})
}

// Many attempts are under way when the rate falls. They say nothing new.
func TestAnswersToAttemptsOfBeforeTheFallDoNotLowerTheRateAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(100)
		time.Sleep(time.Second)
		p.Done(queue(t, p, 1)[0], tooMuch)
		const fallen = 75 * .75
		time.Sleep(20 * time.Millisecond)
		soon := queue(t, p, 1)[0]
		time.Sleep(80 * time.Millisecond)
		for range 100 {
			p.Done(backoff.Ticket{}, tooMuch) // never asked for
		}
		p.Done(soon, tooMuch)
		require.Equal(t, fallen, rateOf(p))
		for _, ticket := range queue(t, p, 5) {
			p.Done(ticket, tooMuch)
		}
		require.Equal(t, fallen*.75, rateOf(p), "once for five attempts")
	})
}

// A quick program wants 50 calls a second, of which a service serves 25.
func TestThePaceDoesNotFallBelowWhatIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, limiter, served := slowed(50), rate.NewLimiter(25, 5), 0
		for began := time.Now(); time.Since(began) < time.Minute; {
			time.Sleep(20 * time.Millisecond)
			ticket := queue(t, p, 1)[0]
			for !turn(t, p, ticket) {
				time.Sleep(time.Millisecond)
			}
			if limiter.Allow() {
				served++
				p.Done(ticket, backoff.Result{})
			} else {
				p.Done(ticket, tooMuch)
			}
			if time.Since(began) > 5*time.Second {
				require.Greater(t, rateOf(p), 15.)
			}
		}
		require.Greater(t, served, 60*25*9/10)
	})
}

// A lineStep is a step of the line of a Pacer: after a while some calls join it, and
// some leave it.
type lineStep struct {
	sleep   time.Duration
	join    int
	leave   []int // the first call that leaves, and how many
	gone    int   // of those that did not leave, so many have had their turn
	waiting int
}

func TestTheLineOfAPacer(t *testing.T) {
	const six = time.Second // in which six calls have their turn
	for name, life := range map[string][]lineStep{
		"calls go at the rate, in the order in which they asked": {
			{join: 30, waiting: 30},
			{sleep: six, gone: 6, waiting: 24},
			{sleep: six, gone: 12, waiting: 18},
			{sleep: 3 * six, gone: 30},
		},
		"turns that nobody took are not saved": {
			{sleep: 5 * six, join: 30, gone: 1, waiting: 29},
		},
		"calls that leave make no others burst, and keep none waiting": {
			{join: 60, waiting: 60},
			{leave: []int{30, 30}, waiting: 30},
			{leave: []int{30, 30}, waiting: 30}, // a second Done changes nothing
			{leave: []int{0, 6}, waiting: 24},
			{sleep: six, gone: 6, waiting: 18},
			{join: 1, gone: 6, waiting: 19},
			{sleep: 3 * six, gone: 24, waiting: 1},
			{sleep: six / 5, gone: 25},
		},
		"a turn that is not used is the next one's": {
			{join: 12, waiting: 12},
			{sleep: six, gone: 6, waiting: 6},
			{leave: []int{0, 1}, gone: 6, waiting: 5},
		},
		"pacing goes on beyond ten quiet seconds while more than one waits": {
			{join: 90, waiting: 90},
			{sleep: 14 * six, gone: 84, waiting: 6},
			{sleep: six, gone: 90},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			p := slowed(8)
			var line []backoff.Ticket
			left := make(map[int]bool)
			for i, step := range life {
				time.Sleep(step.sleep)
				line = append(line, queue(t, p, step.join)...)
				if step.leave != nil {
					for n := range step.leave[1] {
						giveBack(p, line[step.leave[0]+n])
						left[step.leave[0]+n] = true
					}
				}
				gone, waits := 0, false
				for n, ticket := range line {
					switch {
					case left[n]:
					case !turn(t, p, ticket):
						waits = true
					default:
						require.False(t, waits, "step %d: call %d overtakes", i, n)
						gone++
					}
				}
				require.Equal(t, []int{step.gone, step.waiting}, []int{gone, waitingIn(p)}, "step %d", i)
			}
		})
	}
}

// withTime is a first attempt of a call that has so much time.
func withTime(d time.Duration) backoff.Attempt {
	a := firstAttempt
	a.Deadline = time.Now().Add(d)
	return a
}

func TestACallThatMattersMoreGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(8) // 6 a second
		lines := map[backoff.Priority][]backoff.Ticket{}
		for priority := backoff.PriorityBackground; priority <= backoff.PriorityHigh; priority++ {
			for range 6 {
				a := firstAttempt
				a.Priority = priority
				ticket, wait := reserve(t, p, a)
				if len(lines[priority]) == 0 {
					require.LessOrEqual(t, wait, time.Second/6, "nobody before it matters as much")
				}
				lines[priority] = append(lines[priority], ticket)
			}
		}
		for _, want := range [][3]int{{0, 0, 6}, {0, 6, 6}, {6, 6, 6}} {
			time.Sleep(time.Second)
			var gone [3]int
			for priority, line := range lines {
				gone[priority+1] = passed(t, p, line)
			}
			require.Equal(t, want, gone)
		}
	})
}

// A retry remembers both through its backoff.
func TestARetryKeepsThePriorityAndTheEndOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(8) // 6 a second
		retry := func(priority backoff.Priority) backoff.Ticket {
			a := aThrottledRetry
			a.Wait, a.Priority, a.Deadline = time.Second, priority, time.Now().Add(1400*time.Millisecond)
			ticket, _ := reserve(t, p, a)
			return ticket
		}
		high, normal := retry(backoff.PriorityHigh), retry(backoff.PriorityNormal)
		time.Sleep(time.Second)
		queue(t, p, 20)
		normal, wait := askAgain(t, p, normal)
		require.InDelta(t, .4, wait.Seconds(), .01, "to the end")
		high, wait = askAgain(t, p, high)
		require.LessOrEqual(t, wait, time.Second/6, "the others do not matter as much")
		time.Sleep(400 * time.Millisecond)
		require.True(t, turn(t, p, high))
		_, wait = askAgain(t, p, normal)
		require.Positive(t, wait, "it is too late")
	})
}

// The service takes 100 ms. A call that has a second must go within 800.
func TestACallWithTooLittleTimeLeavesItsTurnToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(8) // 6 a second
		for range 40 {
			p.Done(backoff.Ticket{}, backoff.Result{Took: 100 * time.Millisecond})
		}
		before := queue(t, p, int(rateOf(p)*.9)+1)
		short, wait := reserve(t, p, withTime(time.Second))
		require.LessOrEqual(t, wait, 800*time.Millisecond)
		behind := queue(t, p, 1)[0]
		time.Sleep(810 * time.Millisecond)
		_, wait = askAgain(t, p, short)
		require.GreaterOrEqual(t, wait, 190*time.Millisecond, "longer than the call")
		giveBack(p, short)
		time.Sleep(190 * time.Millisecond)
		require.Equal(t, len(before), passed(t, p, before))
		require.True(t, turn(t, p, behind))

		waiting := len(queue(t, p, 9))
		late, wait := reserve(t, p, withTime(150*time.Millisecond))
		require.GreaterOrEqual(t, wait, 150*time.Millisecond)
		require.LessOrEqual(t, waitingIn(p), waiting, "it does not join")
		giveBack(p, late)
	})
}

// Callers have 2 s, and there are 700 before them that have a minute.
func TestForEachCallThatLeavesTooLateTheNewestHasATurn(t *testing.T) {
	for _, late := range []int{0, 30} {
		synctest.Test(t, func(t *testing.T) {
			p, served := slowed(100), 0 // 75 a second
			queue(t, p, 700)
			for n := range 100 {
				if n < late {
					ticket, wait := reserve(t, p, withTime(time.Millisecond))
					require.Greater(t, wait, time.Millisecond)
					giveBack(p, ticket)
				}
				ticket, _ := reserve(t, p, withTime(2*time.Second))
				time.Sleep(40 * time.Millisecond)
				if turn(t, p, ticket) {
					served++
				} else {
					giveBack(p, ticket)
				}
			}
			require.InDelta(t, late, served, float64(late)/3)
		})
	}
}

// Calls slept on, for another budget, when the pace ended in which their turn came.
func TestATurnOfAPaceThatEndedIsWorthNothingInTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(8)
		old := queue(t, p, 60)
		time.Sleep(time.Minute)
		require.Equal(t, math.Inf(1), rateOf(p))
		refuse(p, 4)
		line := queue(t, p, 30)
		giveBack(p, old[:30]...)
		require.Equal(t, 30, waitingIn(p), "cancelled calls give no turns")
		for _, ticket := range old[30:] {
			require.False(t, turn(t, p, ticket), "they overtake nobody")
		}
		require.Equal(t, 60, waitingIn(p))
		giveBack(p, line...)
		require.Equal(t, 30, waitingIn(p))
	})
}

func TestAPacerKeepsThousandCallsWaitingOrThoseOfTenSeconds(t *testing.T) {
	for usual, want := range map[int]int{8: 1000, 1000: 7500} {
		synctest.Test(t, func(t *testing.T) {
			p := slowed(usual)
			tickets := queue(t, p, want)
			_, _, ok := p.Reserve(firstAttempt)
			require.False(t, ok)
			giveBack(p, tickets[0])
			queue(t, p, 1)
		})
	}
}

func TestACallWaitsNoLongerThanMaxWaitOrItsOwnTime(t *testing.T) {
	for maxWait, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Minute: time.Minute, -1: 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			p := slowed(8)
			p.MaxWait = maxWait
			hold := func() { // nothing is answered, and the rate falls and falls
				for range 50 {
					time.Sleep(100 * time.Millisecond)
					ticket, _, _ := p.Reserve(firstAttempt)
					p.Done(ticket, tooMuch)
				}
			}
			hold()
			queue(t, p, 700)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			began := time.Now()
			err := (&backoff.Policy{Budget: p}).Do(ctx, func(context.Context) error { return nil })
			require.Error(t, err)
			require.LessOrEqual(t, time.Since(began), want)
			if maxWait >= 0 {
				require.Equal(t, want, time.Since(began))
				require.ErrorIs(t, err, backoff.ErrBudget)
			}
		})
	}
}

// Whatever the answers were, a call gets its turn.
func TestNoAnswersKeepACallFromItsTurnForLong(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			p := slowed(r.IntN(30))
			if seed%2 == 0 {
				p = new(pace.Pacer)
				p.Done(backoff.Ticket{}, backoff.Result{})
				time.Sleep(24 * time.Hour)
				p.Done(backoff.Ticket{}, tooMuch)
			}
			var tickets []backoff.Ticket
			for range 300 {
				time.Sleep(time.Duration(r.ExpFloat64() * 2e8))
				if ticket, wait, ok := p.Reserve(firstAttempt); ok && wait == 0 {
					tickets = append(tickets, ticket)
				} else {
					giveBack(p, ticket)
				}
				if n := len(tickets); n > 0 && r.IntN(2) == 0 {
					p.Done(tickets[n-1], results.ByName[results.Names[r.IntN(7)]])
					tickets = tickets[:n-1]
				}
			}
			began := time.Now()
			queue(t, p, 2) // who never ask again
			require.NoError(t, (&backoff.Policy{Budget: p}).Do(t.Context(), func(context.Context) error { return nil }))
			require.Less(t, time.Since(began), 3*50*time.Second+10*time.Second)
			time.Sleep(160 * time.Second)
			require.True(t, isCalm(p), "and all is well in the end")
		})
	}
}

// A random walk against a model: the integral of the rate bounds the turns, they
// are taken in order, and the count of those waiting is right.
func TestTurnsNeverExceedTheRate(t *testing.T) {
	nightly.Long(t)
	for seed := range nightly.Size[uint64](4, 10) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := slowed(8 + r.IntN(100))
			var waiting, made []backoff.Ticket
			allowed, taken := 0., 0.
			for range 1000 {
				perSecond, n := p.Limit()
				if math.IsInf(perSecond, 1) {
					break
				}
				require.Equal(t, len(waiting), n)
				d := time.Duration(r.ExpFloat64() * 1e7)
				allowed = min(allowed+perSecond*d.Seconds(), taken+float64(len(waiting))+max(1, perSecond/100))
				time.Sleep(d)
				for len(waiting) > 0 && turn(t, p, waiting[0]) {
					ticket, _, _ := p.Pace(waiting[0])
					waiting, made = waiting[1:], append(made, ticket)
					taken++
				}
				for _, ticket := range waiting {
					require.False(t, turn(t, p, ticket), "nobody overtakes")
				}
				require.LessOrEqual(t, taken, allowed+1e-6)
				switch r.IntN(4) {
				case 0, 1:
					if ticket, wait, ok := p.Reserve(firstAttempt); ok && wait > 0 {
						waiting = append(waiting, ticket)
					} else if ok {
						made, taken = append(made, ticket), taken+1
						allowed = max(allowed, taken) // a saved turn
					}
				case 2:
					if n := len(waiting); n > 0 {
						i := r.IntN(n)
						giveBack(p, waiting[i])
						waiting = append(waiting[:i:i], waiting[i+1:]...)
					}
				default:
					if len(made) > 0 {
						p.Done(made[0], results.ByName[results.Names[r.IntN(6)]])
						made = made[1:]
					}
				}
			}
		})
	}
}

func TestAQuotaThatIsUsedUpSlowsNobody(t *testing.T) {
	for maxWait, slows := range map[time.Duration]bool{0: false, 4 * time.Minute: false, 6 * time.Minute: true, -1: true} {
		p := &pace.Pacer{MaxWait: maxWait}
		p.Done(backoff.Ticket{}, backoff.Result{Failed: true, Class: backoff.ClassThrottled, RetryAfter: 5*time.Minute + 1})
		require.Equal(t, slows, !isCalm(p), "%v", maxWait)
	}
}

func TestRetriesAfterOtherFailuresDoNotWaitInTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(8)
		queue(t, p, 100)
		ticket, wait := reserve(t, p, aRetry)
		require.Zero(t, wait)
		same, wait := askAgain(t, p, ticket)
		require.Zero(t, wait)
		require.Equal(t, ticket, same)
		before := p.Stats().Successes
		p.Done(ticket, backoff.Result{})
		require.Equal(t, before+1, p.Stats().Successes)
	})
}

// A throttled retry must not use up what successes have paid for others.
func TestThrottledRetriesAreNotPaidBySuccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(100)
		for range 50 {
			time.Sleep(50 * time.Millisecond)
			reserve(t, p, aThrottledRetry)
		}
		require.Zero(t, p.Stats().Retries)
	})
}

func TestTheFirstRetryOfARareProgramGoesAtOnceAndTheSecondWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(pace.Pacer)
		p.Done(backoff.Ticket{}, backoff.Result{})
		time.Sleep(time.Hour)
		p.Done(backoff.Ticket{}, tooMuch)
		_, wait, _ := p.Reserve(aThrottledRetry)
		require.Zero(t, wait)
		_, wait, _ = p.Reserve(aThrottledRetry)
		require.Equal(t, 10*time.Second, wait, "until the pace may end")
	})
}

func TestARetryOfAThrottledAttemptJoinsTheLineWhenItsBackoffIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(8)
		a := aThrottledRetry
		a.Wait = time.Second
		ticket, _ := reserve(t, p, a)
		require.Zero(t, waitingIn(p))
		time.Sleep(time.Second)
		before := queue(t, p, 6)
		ticket, wait := askAgain(t, p, ticket)
		require.Positive(t, wait)
		require.Equal(t, 6, waitingIn(p), "one of the six had the turn that was saved")
		time.Sleep(time.Second)
		require.Equal(t, 5, passed(t, p, before[1:]))
		require.True(t, turn(t, p, ticket))
	})
}

// Its backoff was granted before calls were paced.
func TestARetryOfAnEarlyRefusalJoinsTheLineWhenItsBackoffIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := called(20)
		refuse(p, 3)
		a := aThrottledRetry
		a.Wait = time.Second
		ticket, wait := reserve(t, p, a)
		require.Zero(t, wait)
		time.Sleep(time.Second)
		_, wait, _ = p.Pace(ticket)
		require.Zero(t, wait, "calls are not paced yet")
		refuse(p, 1)
		queue(t, p, 10)
		_, wait = askAgain(t, p, ticket)
		require.Positive(t, wait)
		require.Equal(t, 11, waitingIn(p))
	})
}

// Nobody calls Pace for it, so it has its place from the beginning.
func TestAnAttemptThatIsNotPacedTakesItsTurnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(8)
		queue(t, p, 5)
		_, wait := reserve(t, p, backoff.Attempt{Number: 1, Wait: time.Hour})
		require.Equal(t, time.Second, wait, "the sixth, at six a second")
		require.Equal(t, 6, waitingIn(p))
		behind := queue(t, p, 1)[0]
		time.Sleep(time.Second)
		require.False(t, turn(t, p, behind))
		time.Sleep(200 * time.Millisecond)
		require.True(t, turn(t, p, behind))
	})
}

// Another budget makes calls wait whose turn has come.
func TestCallsThatWereHeldAfterTheirTurnJoinTheLineAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(8)
		tickets := queue(t, p, 30)
		time.Sleep(5 * time.Second)
		for i, ticket := range tickets {
			var wait time.Duration
			tickets[i], wait, _ = p.Pace(ticket)
			require.Zero(t, wait)
		}
		time.Sleep(4 * time.Second) // and all are free at the same moment
		went := 0
		for i, ticket := range tickets {
			next, wait := askAgain(t, p, ticket)
			if tickets[i] = next; wait == 0 {
				went++
			}
		}
		require.LessOrEqual(t, went, 2, "the one with the last turn, and one for the turn that is saved")
		require.Equal(t, 30-went, waitingIn(p))
		time.Sleep(time.Second)
		require.LessOrEqual(t, passed(t, p, tickets), went+6)
	})
}

// The caller sleeps itself, and never asks for the pace.
func TestARetryMadeWithoutPaceIsChargedAndHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowed(8)
		time.Sleep(100 * time.Millisecond)
		a := aThrottledRetry
		a.Wait = time.Minute
		ticket, _ := reserve(t, p, a)
		p.Done(ticket, tooMuch)
		require.Equal(t, 4.5, rateOf(p))
		_, wait, _ := p.Reserve(firstAttempt)
		require.Equal(t, 270, int(wait.Milliseconds()), "the turn after the next one")
	})
}

func TestAClockThatIsSetBackDoesNotStopThePace(t *testing.T) {
	p := slowed(0)
	now := time.Now().Round(0)
	at := func(d time.Duration) time.Duration {
		a := firstAttempt
		a.Now = now.Add(d)
		_, wait := reserve(t, p, a)
		return wait
	}
	at(0)
	at(-24 * time.Hour)
	require.Less(t, at(-24*time.Hour+time.Second), 3*time.Second)
}

func TestAnInvalidPacerGrantsNothingUnasked(t *testing.T) {
	var none *pace.Pacer
	require.Error(t, none.Validate())
	require.False(t, none.GrantsFirst())
	bad := &pace.Pacer{RetryBudget: backoff.RetryBudget{Ratio: -1}}
	require.Error(t, bad.Validate())
	require.False(t, bad.GrantsFirst())
}

func TestAForeignTicketHarmsNoPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, word := range []uint64{
			1, 1 << 61, 1 << 62, 1<<62 | 1, 1<<62 | 1<<61, 1<<62 | 1<<60, 1<<62 | 1<<60 | 2, 1<<62 | 7,
			1<<62 | 1<<31, 1<<62 | 1<<32, 1<<62 | 1<<44 - 1, 1<<63 - 1, 1 << 63, math.MaxUint64,
		} {
			for _, o := range results.Names {
				p := slowed(8)
				queue(t, p, 5)
				p.Pace(backoff.Ticket{Word: word})
				p.Done(backoff.Ticket{Word: word}, results.ByName[o])
				p.Pace(backoff.Ticket{Word: word})
				require.Greater(t, rateOf(p), 1., "%x", word)
				require.LessOrEqual(t, waitingIn(p), 7, "%x", word)
				queue(t, p, 1)
			}
		}
	})
}

func TestAPacerIsSafeForConcurrentUse(t *testing.T) {
	p := new(pace.Pacer)
	together(8, func(i int) {
		r := rand.New(rand.NewPCG(uint64(i), 3))
		for range 2000 {
			a := firstAttempt
			if r.IntN(3) == 0 {
				a = aThrottledRetry
				a.Wait = time.Duration(r.IntN(2)) * time.Second
			}
			p.GrantsFirst()
			ticket, _, ok := p.Reserve(a)
			if !ok {
				continue
			}
			if r.IntN(2) == 0 {
				ticket, _, _ = p.Pace(ticket)
			}
			p.Done(ticket, results.ByName[results.Names[r.IntN(7)]])
			p.Limit()
		}
	})
}

func BenchmarkPacerSuccess(b *testing.B) {
	for name, budget := range map[string]backoff.Budget{"RetryBudget": new(backoff.RetryBudget), "Pacer": new(pace.Pacer)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				budget.Done(backoff.Ticket{}, backoff.Result{})
			}
		})
	}
}

func ExamplePacer() {
	// The service takes 100 calls a second, and answers "too much" to more.
	service := rate.NewLimiter(100, 20)
	policy := backoff.Policy{Budget: &pace.Pacer{}}

	var workers sync.WaitGroup
	var failed atomic.Int64
	for range 10 {
		workers.Go(func() {
			for range 4 {
				err := policy.Do(context.Background(), func(context.Context) error {
					if !service.Allow() {
						return backoff.OfClass(errors.New("too much"), backoff.ClassThrottled)
					}
					return nil
				})
				if err != nil {
					failed.Add(1)
				}
			}
		})
	}
	workers.Wait()
	fmt.Println("failed:", failed.Load())
	// Output: failed: 0
}

type sqlState string

func (s sqlState) Error() string    { return string(s) }
func (s sqlState) SQLState() string { return string(s) }

type awsCode string

func (c awsCode) Error() string     { return string(c) }
func (c awsCode) ErrorCode() string { return string(c) }

type mysqlError uint16

func (e mysqlError) Error() string { return "mysql" }

func mysqlNumber(err error) uint16 {
	var e mysqlError
	errors.As(err, &e)
	return uint16(e)
}

// Each kind of service has its own error for "too many requests".
func TestAPacerKnowsTheThrottlingErrorsOfAllServices(t *testing.T) {
	mysql := backoffsql.MySQL(mysqlNumber)
	for _, c := range []struct {
		classify backoff.Classifier
		err      error
		paced    bool
	}{
		{nil, sqlState("53300"), true},
		{nil, sqlState("53400"), true},
		{backoffsql.Classify, sqlState("53300"), true},
		{backoffsql.Classify, sqlState("53400"), true},
		{backoffsql.Classify, sqlState("40001"), false},
		{mysql, mysqlError(1040), true},
		{mysql, mysqlError(1203), true},
		{mysql, mysqlError(1226), false}, // a limit of the account, which may be that of the hour
		{mysql, mysqlError(1213), false},
		{nil, awsCode("ThrottlingException"), true},
		{nil, awsCode("RequestLimitExceeded"), true},
		{nil, awsCode("ProvisionedThroughputExceededException"), true},
		{nil, awsCode("SlowDown"), true},
		{nil, awsCode("InternalError"), false},
		{nil, &backoffhttp.StatusError{Code: 429}, true},
		{backoffhttp.Classify, &backoffhttp.StatusError{Code: 429}, true},
		{backoffhttp.Classify, &backoffhttp.StatusError{Code: 503}, false},
		{nil, backoff.RetryAfter(backoff.OfClass(errors.New("soon"), backoff.ClassThrottled), time.Millisecond), true},
		{nil, backoff.RetryAfter(backoff.OfClass(errors.New("in an hour"), backoff.ClassThrottled), time.Hour), false},
	} {
		pacer := new(pace.Pacer)
		policy := &backoff.Policy{MaxAttempts: 1, Budget: pacer, Classify: c.classify}
		require.Error(t, policy.Do(t.Context(), func(context.Context) error { return fmt.Errorf("call: %w", c.err) }))
		require.Equal(t, c.paced, !isCalm(pacer), "%v", c.err)
	}
}
