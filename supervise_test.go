package backoff_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/limit"
)

var errCut = errors.New("connection cut")

// A lineman keeps a connection whose runs last as long as he is told, the last
// of them for every further run, and notes the waits between them.
type lineman struct {
	lasting []time.Duration
	err     error // of every run
	runs    int
	waits   []time.Duration
	ended   time.Time
}

func (l *lineman) run(ctx context.Context) error {
	if l.runs > 0 {
		l.waits = append(l.waits, time.Since(l.ended))
	}
	l.runs++
	defer func() { l.ended = time.Now() }()
	if len(l.lasting) > 0 {
		hold(ctx, l.lasting[min(l.runs, len(l.lasting))-1])
	}
	return l.err
}

// hold waits for d, or for the end of ctx.
func hold(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rigid waits 100 ms, 200 ms, 400 ms exactly, up to 30 s, and runs so often, if that
// is not 0, under a budget.
func rigid(runs int, budget backoff.Budget) backoff.Policy {
	return backoff.Policy{Name: "line", Jitter: backoff.NoJitter, MaxAttempts: runs, Budget: budget}
}

// supervise is the Run of a Supervisor with a policy whose MaxAttempts is the
// MaxRuns.
func supervise(p backoff.Policy, ctx context.Context, op func(context.Context) error) error {
	return resettingAfter(0, p).Run(ctx, op)
}

func superviseReady(p backoff.Policy, ctx context.Context, op func(context.Context, func()) error) error {
	return resettingAfter(0, p).RunReady(ctx, op)
}

func resettingAfter(d time.Duration, p backoff.Policy) backoff.Supervisor {
	s := backoff.Supervisor{Policy: p, MaxRuns: p.MaxAttempts, ResetAfter: d}
	s.Policy.MaxAttempts = 0
	return s
}

func TestASupervisorRunsForAsLongAsTheContextLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lineman{err: errCut}
		err := supervise(rigid(0, nil), within(t, 24*time.Hour), l.run)
		requireIs(t, err, context.DeadlineExceeded, errCut)
		require.Equal(t, 9+(24*60*60*1000-51100)/30_000+1, l.runs, "51.1 s of growing waits, and one every 30 s")
	})
}

func TestASupervisorWaitsAlsoAfterARunThatEndedWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lineman
		err := supervise(rigid(5, nil), t.Context(), l.run)
		require.EqualError(t, err, "backoff: line: gave up after 5 attempts: run ended")
		require.Equal(t, msec(100, 200, 400, 800), l.waits)
	})
}

// Drop, stable for a minute, drop: the delay starts from its
// base.
func TestASupervisorStartsTheScheduleAgainAfterAHealthyRunAndNotBefore(t *testing.T) {
	short, long := 59_999*time.Millisecond, time.Minute
	for _, c := range []struct {
		name    string
		healthy time.Duration
		lasting []time.Duration
		waits   []time.Duration
	}{
		{"a minute", time.Minute, []time.Duration{0, 0, short, long, 0, 0}, msec(100, 200, 400, 100, 200, 400)},
		{"30 s by default", 0, []time.Duration{0, 20 * time.Second, short / 2, long / 2, 0, 0}, msec(100, 200, 400, 100, 200, 400)},
		{"negative: every run", -1, []time.Duration{0, 0, long, 0, 0, 0}, msec(100, 100, 100, 100, 100, 100)},
	} {
		bubble(t, c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			l := lineman{lasting: c.lasting, err: errCut}
			resettingAfter(c.healthy, rigid(0, nil)).Run(ctx, func(ctx context.Context) error {
				if l.runs == len(c.waits) {
					defer cancel()
				}
				return l.run(ctx)
			})
			require.Equal(t, c.waits, l.waits)
		})
	}
}

// Routers and MaxConnectionAge end a connection each minute as planned. Such a run has
// paid for the next dial, whatever the schedule.
func TestPlannedEndsKeepALoopOnline(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		schedule backoff.Schedule
		maxDelay time.Duration
		lasts    time.Duration
	}{
		"the default":              {nil, 0, time.Minute},
		"up to a minute":           {backoff.Exponential{Max: time.Minute}, 0, time.Minute},
		"up to an hour":            {backoff.Exponential{Max: time.Hour}, 0, time.Minute},
		"without an end":           {backoff.Linear{Max: -1}, 0, time.Minute},
		"a second each":            {backoff.Constant(time.Second), 0, time.Minute},
		"one that never rests":     {backoff.Constant(0), 0, time.Minute},
		"a list":                   {backoff.Sequence(time.Second, 10*time.Second, 2*time.Minute), 0, time.Minute},
		"one's own that overflows": {backoff.ScheduleFunc(func(n int) time.Duration { return time.Second << n }), 0, time.Minute},
		"ends each 31 s":           {nil, 0, 31 * time.Second},
		"ends each 11 s":           {backoff.Exponential{Max: 5 * time.Second}, 0, 11 * time.Second},
		"waits of 5 s at most":     {nil, 5 * time.Second, 11 * time.Second},
	} {
		bubble(t, name, func(t *testing.T) {
			l := lineman{lasting: []time.Duration{c.lasts}, err: io.EOF}
			p := backoff.Policy{Schedule: c.schedule, MaxDelay: c.maxDelay}
			supervise(p, within(t, hour), l.run)
			online := time.Duration(l.runs) * c.lasts
			require.Greater(t, online.Seconds(), 0.98*hour.Seconds())
			require.Less(t, l.runs, int(hour/(10*time.Second)), "and dials seldom")
		})
	}
}

// A service that accepts connections and drops them is not dialed in a spin: not if it
// drops them at once, nor if it drops them just before a run has paid for itself.
func TestALoopWhoseConnectionsAreDroppedSoonWaits(t *testing.T) {
	for lasts, most := range map[time.Duration]int{0: 9 + 120 + 1, time.Second: 9 + 117, 9 * time.Second: 9 + 93, 29 * time.Second: 9 + 62} {
		bubble(t, lasts.String(), func(t *testing.T) {
			l := lineman{lasting: []time.Duration{lasts}, err: io.EOF}
			supervise(rigid(0, nil), within(t, time.Hour), l.run)
			require.LessOrEqual(t, l.runs, most)
		})
	}
}

func TestARunOfAFewSecondsIsNotHealthyHoweverShortTheWaits(t *testing.T) {
	for _, schedule := range []backoff.Schedule{backoff.Constant(0), backoff.Constant(time.Second), backoff.Exponential{Max: 5 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			l := lineman{lasting: []time.Duration{9 * time.Second}, err: errCut}
			s := backoff.Supervisor{Policy: backoff.Policy{Schedule: schedule}, MaxRuns: 3}
			require.ErrorIs(t, s.Run(within(t, time.Hour), l.run), backoff.ErrExhausted)
			require.Equal(t, 3, l.runs)
		})
	}
}

func TestASupervisorCountsRunsSinceTheLastHealthyRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lineman{lasting: []time.Duration{0, 0, time.Hour, 0, time.Hour, 0, 0, 0}, err: errCut}
		err := supervise(rigid(3, nil), t.Context(), l.run)
		requireIs(t, err, backoff.ErrExhausted, errCut)
		require.Equal(t, 7, l.runs, "the third and the fifth began anew")
		require.Equal(t, msec(100, 200, 100, 200, 100, 200), append(l.waits[:3:3], 200*time.Millisecond, l.waits[4], l.waits[5]))
	})
}

func TestASupervisorCountsMaxElapsedSinceTheLastHealthyRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := rigid(0, nil)
		p.MaxElapsed = time.Second
		l := lineman{lasting: []time.Duration{0, 0, time.Hour, 0}, err: errCut}
		require.ErrorIs(t, supervise(p, t.Context(), l.run), backoff.ErrExhausted)
		require.Equal(t, msec(100, 200, 100, 200, 400), l.waits, "and the next of 800 ms would pass it")
	})
}

// What ends a call need not end a loop: the name comes back, the certificate is
// replaced, the rollout is over.
func TestAReconnectLoopGoesOnAfterAnErrorThatNobodyMarked(t *testing.T) {
	returns := func(err error) func(context.Context) error { return returning(err).do }
	inner := func(p backoff.Policy, err error) func(context.Context) error { return p.Wrap(returns(err)) }
	nxdomain := &net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}
	for name, op := range map[string]func(context.Context) error{
		"NXDOMAIN":                     returns(nxdomain),
		"wrapped":                      returns(fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: nxdomain})),
		"x509":                         returns(x509.UnknownAuthorityError{}),
		"a cancellation of its own":    returns(context.Canceled),
		"a wrapped cancellation":       returns(&url.Error{Op: "Get", URL: "http://db", Err: context.Canceled}),
		"a permanent status":           returns(httpStatus{403, nil}),
		"a client's word":              returns(awsSays{false}),
		"joined":                       returns(errors.Join(errCut, context.Canceled)),
		"a refusal that is nil":        returns((*backoff.OpenError)(nil)),
		"another library's loop":       returns(errors.New("GET http://db giving up after 4 attempt(s)")),
		"exhausted inside":             inner(backoff.Policy{}, errCut),
		"found permanent inside":       inner(backoff.Policy{}, nxdomain),
		"listed as permanent inside":   inner(backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return false })}, errCut),
		"told to wait too long inside": inner(backoff.Policy{}, backoff.RetryAfter(errCut, time.Hour)),
		"refused by a budget inside":   inner(backoff.Policy{Budget: &clerk{reserve: no(1, 1<<30)}}, errCut),
		"not idempotent inside":        inner(backoff.Policy{Idempotency: backoff.NonIdempotent}, errCut),
		"exhausted inside, told as a text": func(ctx context.Context) error {
			return errors.New("dial: " + inner(backoff.Policy{}, errCut)(ctx).Error())
		},
		"a loop inside": func(ctx context.Context) error {
			return supervise(backoff.Policy{MaxAttempts: 2}, ctx, returns(nxdomain))
		},
		"a hedge inside": func(ctx context.Context) error {
			_, err := hedge.Value(ctx, &hedge.Hedge{Delay: time.Second}, func(context.Context) (int, error) { return 0, nxdomain }, nil)
			return err
		},
		"an open circuit inside a policy": func(ctx context.Context) error {
			breaker := backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1}
			return layers(backoff.Policy{}, &breaker).Do(ctx, returns(errCut))
		},
	} {
		for _, timeout := range []time.Duration{0, time.Hour} {
			bubble(t, fmt.Sprint(name, timeout), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				clerk := clerk{}
				p := rigid(0, &clerk)
				p.AttemptTimeout = timeout
				events := watch(&p)
				runs := 0
				err := supervise(p, ctx, func(ctx context.Context) error {
					if runs++; runs == 6 {
						cancel()
						return nil
					}
					return op(ctx)
				})
				require.Equal(t, backoff.ReasonCanceled, gaveUp(t, err).Reason)
				require.Equal(t, 6, runs)
				require.NotContains(t, clerk.told, "permanent")
				require.NotContains(t, clerk.told, "success", "which would pay for further runs")
				require.Len(t, *events, 6)
				for _, e := range (*events)[:5] {
					require.Equal(t, backoff.EventReconnect, e.Kind)
					require.True(t, e.Class.Retryable(), e.Class)
				}
			})
		}
	}
}

func TestAReconnectLoopEndsWhenItsOwnerSaysSoAndTellsWhy(t *testing.T) {
	const permanent, overloaded = backoff.ReasonPermanent, backoff.ReasonOverloaded
	inner := func(p backoff.Policy, err error) error { return p.Do(t.Context(), returning(err).do) }
	once := backoff.Policy{MaxAttempts: 1}
	said := func(c backoff.Class) backoff.Policy {
		return backoff.Policy{Classify: func(err error) backoff.Class {
			if errors.Is(err, errCut) {
				return c
			}
			return backoff.ClassUnknown
		}}
	}
	for name, row := range map[string]struct {
		policy backoff.Policy
		err    error
		why    backoff.Reason
	}{
		"a mark":                     {backoff.Policy{}, backoff.Permanent(errCut), permanent},
		"wrapped":                    {backoff.Policy{}, fmt.Errorf("login: %w", backoff.Permanent(errCut)), permanent},
		"of a cancellation":          {backoff.Policy{}, backoff.Permanent(fmt.Errorf("%w: %w", errCut, context.Canceled)), permanent},
		"beside what is retried":     {backoff.Policy{}, errors.Join(io.ErrUnexpectedEOF, backoff.Permanent(errCut)), permanent},
		"do not retry":               {backoff.Policy{}, backoff.OfClass(errCut, backoff.ClassOverloaded), overloaded},
		"a server's do not retry":    {backoff.Policy{}, backoff.Pushback(errCut, -1), overloaded},
		"through a policy inside":    {backoff.Policy{}, inner(backoff.Policy{}, backoff.Permanent(errCut)), permanent},
		"overloaded, through one":    {backoff.Policy{}, inner(backoff.Policy{}, backoff.Pushback(errCut, -1)), overloaded},
		"of what one gave up on":     {backoff.Policy{}, backoff.Permanent(inner(once, errCut)), permanent},
		"beside what one gave up on": {backoff.Policy{}, errors.Join(inner(backoff.Policy{}, io.EOF), backoff.Permanent(errCut)), permanent},
		"its classifier":             {said(backoff.ClassPermanent), errCut, permanent},
		"its classifier, overloaded": {said(backoff.ClassOverloaded), errCut, overloaded},
		"its list":                   {backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return false })}, errCut, permanent},
		"of what a policy gave up":   {said(backoff.ClassPermanent), inner(backoff.Policy{MaxAttempts: 2}, errCut), permanent},
		"its idempotency":            {backoff.Policy{Idempotency: backoff.NonIdempotent}, errCut, backoff.ReasonNotIdempotent},
		"its attempts":               {once, context.Canceled, backoff.ReasonAttempts},
		"its time":                   {backoff.Policy{MaxElapsed: time.Nanosecond, Jitter: backoff.NoJitter}, context.Canceled, backoff.ReasonElapsed},
	} {
		t.Run(name, func(t *testing.T) {
			clerk := clerk{}
			row.policy.Name, row.policy.Budget = "line", &clerk
			events := watch(&row.policy)
			runs := 0
			err := supervise(row.policy, t.Context(), func(context.Context) error {
				runs++
				return row.err
			})
			var gave *backoff.Error
			require.True(t, errors.As(err, &gave) && error(gave) == err, "%T", err)
			require.Equal(t, row.why, gave.Reason)
			require.Equal(t, row.err, gave.Last)
			require.Equal(t, []any{"line", 1, 1}, []any{gave.Name, gave.Attempts, runs})
			require.Equal(t, row.why == permanent, strings.HasPrefix(err.Error(), "backoff: line: gave up after 1 attempt: permanent: "), err.Error())
			require.Len(t, *events, 1)
			require.Equal(t, row.why, (*events)[0].Reason)
			require.Equal(t, row.err, (*events)[0].Err)
			require.Equal(t, row.why == permanent, (*events)[0].Class == backoff.ClassPermanent)
			if row.why == permanent {
				word := map[bool]string{false: "permanent", true: "canceled"}[errors.Is(row.err, context.Canceled)]
				require.Equal(t, []string{word}, clerk.told)
			}
		})
	}
}

// A classifier cannot know it, and a list of what to retry has it not.
func TestNoClassifierIsAskedAboutARunThatEndedWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := rigid(3, nil)
		p.Classify = backoff.RetryIf(func(err error) bool { panic(err) })
		var l lineman
		require.ErrorIs(t, supervise(p, t.Context(), l.run), backoff.ErrExhausted)
		require.Equal(t, 3, l.runs)
	})
}

func TestASupervisorHasItsOwnLimitOfRuns(t *testing.T) {
	s := backoff.Supervisor{Policy: backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(-1), Budget: &backoff.RetryBudget{Ratio: -1}}}
	for _, err := range []error{s.Validate(), s.Run(t.Context(), func(context.Context) error { panic("run") })} {
		require.ErrorContains(t, err, "Supervisor.Policy.MaxAttempts is 3, want 0: MaxRuns limits the runs")
		require.ErrorContains(t, err, "Policy.Schedule: Constant is -1ns")
		require.ErrorContains(t, err, "RetryBudget.Ratio")
	}
	s.Policy = backoff.Policy{MaxAttempts: -1}
	require.NoError(t, s.Validate())
}

// As the loop does, Decide leaves to the operation what ends it.
func TestASupervisorDecidesAsItsLoopDoes(t *testing.T) {
	s := backoff.Supervisor{MaxRuns: 3}
	gave := &backoff.Error{Reason: backoff.ReasonAttempts, Attempts: 4, Last: errCut}
	for _, row := range []struct {
		run  int
		err  error
		want backoff.Reason
	}{
		{1, gave, backoff.Reason(0)},
		{1, context.Canceled, backoff.Reason(0)},
		{1, nil, backoff.Reason(0)},
		{1, &backoff.OpenError{}, backoff.ReasonOpen},
		{3, gave, backoff.ReasonAttempts},
		{1, backoff.Permanent(gave), backoff.ReasonPermanent},
		{1, backoff.OfClass(errCut, backoff.ClassOverloaded), backoff.ReasonOverloaded},
		{1, backoff.RetryAfter(errCut, time.Hour), backoff.Reason(0)},
	} {
		d := s.Decide(row.run, row.err)
		require.Equal(t, row.want, d.Reason, "%v", row.err)
		require.Equal(t, row.want == backoff.Reason(0) || row.want == backoff.ReasonOpen, d.Again, "%v", row.err)
	}
}

// A server can make the loop wait for MaxRetryAfter, however much more it asks
// for, and does not end it.
func TestAReconnectLoopWaitsNoLongerThanMaxRetryAfter(t *testing.T) {
	const h, m = time.Hour, time.Minute
	for _, row := range []struct {
		limit       time.Duration
		mark        func(error, time.Duration) error
		asked       time.Duration
		least, most time.Duration
	}{
		{0, backoff.RetryAfter, 4 * m, 4 * m, 4*m + 24*time.Second},
		{0, backoff.RetryAfter, 10 * h, 5 * m, 5*m + 30*time.Second},
		{0, backoff.RetryAfter, forever, 5 * m, 5*m + 30*time.Second},
		{0, backoff.Pushback, forever, 5 * m, 5*m + 30*time.Second},
		{-1, backoff.RetryAfter, 10 * h, 10 * h, 11 * h},
		{m, backoff.RetryAfter, 10 * h, m, m + 6*time.Second},
		{11 * h, backoff.RetryAfter, 10 * h, 10 * h, 11 * h},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := backoff.Policy{MaxRetryAfter: row.limit, MaxAttempts: 2}
			events := watch(&p)
			l := lineman{err: row.mark(errCut, row.asked)}
			err := supervise(p, t.Context(), l.run)
			require.ErrorIs(t, err, backoff.ErrExhausted)
			require.GreaterOrEqual(t, l.waits[0], row.least)
			require.LessOrEqual(t, l.waits[0], row.most)
			require.Equal(t, row.asked, (*events)[0].RetryAfter, "what it asked for is told")
			require.Equal(t, row.asked, gaveUp(t, err).RetryAfter())
		})
	}
}

func TestASupervisorUnderAnEndedContextNeitherRunsNorAsks(t *testing.T) {
	var l lineman
	var clerk clerk
	p := rigid(0, nil)
	for _, p.Budget = range []backoff.Budget{nil, &clerk} {
		require.EqualError(t, supervise(p, endedContext(t), l.run), "backoff: line: not started: context canceled")
	}
	require.Zero(t, l.runs)
	require.Empty(t, clerk.asked)
}

// What ends a run by its own time does not end the loop, in whatever words the
// client reports it.
func TestASupervisorGoesOnWhenAttemptTimeoutEndsAHealthyRun(t *testing.T) {
	for _, told := range []error{context.DeadlineExceeded, context.Canceled, nil} {
		synctest.Test(t, func(t *testing.T) {
			ctx := within(t, 24*time.Hour)
			p := rigid(0, nil)
			p.AttemptTimeout = 10 * time.Minute
			op := returning(told)
			require.ErrorIs(t, supervise(p, ctx, op.hang), context.DeadlineExceeded)
			require.Len(t, op.at, 144, "every 10 min and 100 ms")
		})
	}
}

// Nobody wants a loop to end with an outage.
func TestAReconnectLoopWaitsForACircuitInside(t *testing.T) {
	for _, open := range []time.Duration{time.Minute, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx := within(t, time.Hour)
			breaker := backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(open), Jitter: backoff.NoJitter}
			var clerk clerk
			l := lineman{err: errCut}
			err := supervise(rigid(0, &clerk), ctx, func(ctx context.Context) error { return breaker.Do(ctx, l.run) })
			require.Empty(t, clerk.out)
			requireIs(t, err, errCut, context.DeadlineExceeded)
			require.Equal(t, []string{"failed", "not sent"}, clerk.told[:2])
			for _, wait := range l.waits[1:] {
				require.GreaterOrEqual(t, wait, open)
			}
			require.InDelta(t, 0.85*float64(time.Hour/open), l.runs, 0.2*float64(time.Hour/open))
		})
	}
}

func TestAReconnectLoopAsksACircuitAgainAfterMaxRetryAfter(t *testing.T) {
	for _, force := range []bool{false, true} { // a circuit that is forced open does not know for how long
		synctest.Test(t, func(t *testing.T) {
			breaker := backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Hour)}
			p := backoff.Policy{MaxRetryAfter: time.Minute, Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}
			if force {
				breaker.Force(backoff.ModeForcedOpen)
			}
			ctx := within(t, 30*time.Minute)
			refused := 0
			err := supervise(p, ctx, func(ctx context.Context) error {
				err := breaker.Do(ctx, func(context.Context) error { return errCut })
				if errors.Is(err, backoff.ErrOpen) {
					refused++
				}
				return err
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.InDelta(t, 29, refused, 2)
		})
	}
}

// It would keep its answer for Pace, which a reconnect loop never calls.
func TestABudgetUnderSuperviseIsToldOfNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		p := backoff.Policy{MaxAttempts: 4, Budget: &ledger{wait: func(a backoff.Attempt) time.Duration { waits = append(waits, a.Wait); return 0 }}}
		require.ErrorIs(t, supervise(p, t.Context(), func(context.Context) error { return errCut }), errCut)
		require.Equal(t, msec(0, 0, 0, 0), waits)
	})
}

func TestASupervisorWaitsAndAsksAgainWhereTheBudgetRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clerk := clerk{reserve: no(2, 4)}
		began := time.Now()
		l := lineman{err: errCut}
		err := supervise(rigid(2, &clerk), t.Context(), l.run)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.NotErrorIs(t, err, backoff.ErrBudget)
		require.Equal(t, 2, l.runs)
		asked := each(clerk.times, func(at time.Time) time.Duration { return at.Sub(began) })
		require.Equal(t, msec(0, 100, 300, 700, 1500), asked, "once after every wait")
		require.Equal(t, msec(1500), l.waits, "and ran as soon as it agreed")
		require.Empty(t, clerk.out)
	})
}

// A loop whose service throttles waits as long while its budget refuses.
func TestASupervisorWaitsByTheClassOfTheLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clerk := clerk{reserve: no(4, 5)}
		p := rigid(-1, &clerk)
		p.ByClass = map[backoff.Class]backoff.ClassLimits{
			backoff.ClassThrottled: {MaxAttempts: 5, Schedule: backoff.Linear{Initial: time.Second}},
			backoff.ClassRetryable: {Schedule: backoff.Constant(7 * time.Second)},
		}
		l := lineman{}
		err := supervise(p, t.Context(), func(ctx context.Context) error {
			if l.runs == 2 || l.runs > 3 {
				l.err = backoff.OfClass(errCut, backoff.ClassThrottled)
			} else if l.err = nil; l.runs == 1 {
				l.err = errCut
			}
			return l.run(ctx)
		})
		require.Equal(t, backoff.ReasonAttempts, gaveUp(t, err).Reason)
		require.Equal(t, msec(7000, 200, 3000+4000+5000, 7000), l.waits, "run ended, cut, throttled and refused twice, ended")
		limits := each(clerk.asked, func(a backoff.Attempt) int { return a.MaxAttempts })
		require.Equal(t, []int{-1, -1, -1, 5, 5, 5, -1}, limits)
	})
}

func TestASupervisorTellsTheBudgetWhatItAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clerk := clerk{reserve: func(n int) (time.Duration, bool) { return 0, n == 3 || n == 5 || n > 7 }}
		p := rigid(3, &clerk)
		p.AttemptTimeoutSchedule = backoff.Sequence(time.Second, 0)
		supervise(p, t.Context(), func(ctx context.Context) error {
			if _, limited := ctx.Deadline(); limited {
				<-ctx.Done()
				return context.Canceled
			}
			return backoff.OfClass(errCut, backoff.ClassThrottled)
		})
		type question struct {
			number int
			class  backoff.Class
		}
		var asked []question
		for _, a := range clerk.asked {
			require.False(t, a.Now.IsZero())
			asked = append(asked, question{a.Number, a.Class})
		}
		require.Equal(t, []question{
			{1, backoff.ClassUnknown}, {1, backoff.ClassUnknown}, {1, backoff.ClassUnknown},
			{2, backoff.ClassRetryable}, {2, backoff.ClassRetryable}, // its time ran out
			{3, backoff.ClassThrottled}, {3, backoff.ClassThrottled}, {3, backoff.ClassThrottled},
		}, asked)
		require.Equal(t, []string{"timeout", "throttled", "throttled"}, clerk.told)
	})
}

func TestASupervisorWaitsAndAsksAgainWhereTheBudgetDoesNotConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clerk := clerk{depart: func(n int) bool { return n > 2 }}
		began := time.Now()
		require.ErrorIs(t, supervise(rigid(2, &clerk), t.Context(), (&lineman{err: errCut}).run), backoff.ErrExhausted)
		require.Equal(t, 700*time.Millisecond, time.Since(began), "two waits before the first run, one after it")
		require.Equal(t, []string{"not sent", "not sent", "failed", "failed"}, clerk.told)
	})
}

// Even with a schedule of zeros and a generator that draws nothing but zeros.
func TestASupervisorNeverSpinsWhereTheBudgetRefuses(t *testing.T) {
	refused := map[string]*clerk{
		"the run":       {reserve: no(2, 1<<30)},
		"the first run": {reserve: no(1, 1<<30)},
		"departures":    {depart: func(n int) bool { return n == 1 }},
	}
	zero := func() float64 { return 0 }
	policies := map[string]backoff.Policy{
		"zero schedule": {Schedule: backoff.Constant(0), Rand: zero},
		"zero draws":    {Rand: zero},
		"pushback of 0": {},
		"at once":       {Schedule: backoff.Constant(0)},
	}
	for who, clerk := range refused {
		for what, p := range policies {
			bubble(t, who+", "+what, func(t *testing.T) {
				clerk.asked, clerk.departed = nil, 0
				p.Budget = clerk
				runs := 0
				err := supervise(p, within(t, time.Hour), func(context.Context) error {
					runs++
					if what == "at once" {
						return backoff.AtOnce(errCut)
					}
					return backoff.Pushback(errCut, 0)
				})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if runs > 0 {
					require.ErrorIs(t, err, errCut, "it is not lost")
				}
				require.LessOrEqual(t, runs, 1)
				require.Greater(t, len(clerk.asked), 100)
				require.Less(t, len(clerk.asked), 400, "in an hour: the wait grows to 30 s")
			})
		}
	}
}

func TestASupervisorBoundsItsOwnWaitsByMaxDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clerk := clerk{reserve: no(2, 1<<30)}
		p := backoff.Policy{Schedule: backoff.Constant(0), MaxDelay: time.Second, Budget: &clerk}
		supervise(p, within(t, time.Hour), func(context.Context) error { return errCut })
		require.InDelta(t, 3600, len(clerk.asked), 10)
	})
}

func TestASupervisorObeysARetryAfterOnceAndNotAgainAtEveryRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clerk := clerk{reserve: no(2, 3)}
		p := rigid(2, &clerk)
		p.Rand = func() float64 { return 0 }
		began := time.Now()
		supervise(p, t.Context(), func(context.Context) error { return backoff.RetryAfter(errCut, time.Minute) })
		require.Equal(t, time.Minute+600*time.Millisecond, time.Since(began), "of waits of a minute, 200 and 400 ms")
	})
}

func TestASupervisorEndsInsteadOfWaitingForABudgetBeyondItsTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		reserve func(n int) (time.Duration, bool)
		ended   time.Duration
	}{
		{"refused", no(2, 1<<30), 700 * time.Millisecond},
		{"delayed at first", func(n int) (time.Duration, bool) { return time.Hour, n > 1 }, 100 * time.Millisecond},
		{"delayed after a run", func(n int) (time.Duration, bool) { return time.Duration(n-1) * time.Hour, true }, 100 * time.Millisecond},
		{"delayed later", func(n int) (time.Duration, bool) { return time.Hour, n == 4 }, 700 * time.Millisecond},
	} {
		bubble(t, c.name, func(t *testing.T) {
			clerk := clerk{reserve: c.reserve}
			began := time.Now()
			err := supervise(rigid(0, &clerk), within(t, time.Second), func(context.Context) error { return errCut })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, c.ended, time.Since(began))
			require.Empty(t, clerk.out)
		})
	}
}

func TestASupervisorAsksAsForAFirstAttemptAfterTwoMinutesOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clerk := clerk{reserve: no(2, 4)}
		p := rigid(2, &clerk)
		p.Schedule = backoff.Constant(time.Minute)
		supervise(p, t.Context(), func(context.Context) error { return errCut })
		require.Equal(t, []bool{true, false, false, true, true}, each(clerk.asked, backoff.Attempt.First))
	})
}

func TestASupervisorTellsTheJitterOfTheWaitsOfRefusalsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var prevs []time.Duration
		p := backoff.Policy{Schedule: backoff.Constant(time.Second), MaxAttempts: 2, Budget: &clerk{reserve: no(2, 3)}}
		p.Jitter = func(delay, prev time.Duration, _ float64) time.Duration {
			prevs = append(prevs, prev)
			return prev + delay
		}
		supervise(p, t.Context(), func(context.Context) error { return errCut })
		require.Equal(t, msec(0, 1000, 2000), prevs[len(prevs)-3:])
	})
}

func TestASupervisorReturnsAtOnceWhenTheContextEndsWhileTheBudgetRefuses(t *testing.T) {
	for name, clerk := range map[string]*clerk{
		"refused": {reserve: no(1, 1<<30)},
		"delayed": {reserve: func(n int) (time.Duration, bool) { return time.Hour, n > 1 }},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, began := cancelledAfter(t, 10*time.Minute+time.Millisecond), time.Now()
			var l lineman
			require.EqualError(t, supervise(rigid(0, clerk), ctx, l.run), "backoff: line: not started: context canceled")
			require.Equal(t, 10*time.Minute+time.Millisecond, time.Since(began))
			require.Zero(t, l.runs)
			require.Zero(t, clerk.departed)
			require.Empty(t, clerk.out)
		})
	}
}

func TestASupervisorReturnsWhenTheContextEndsWithTheWaitOfARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		clerk := clerk{}
		clerk.reserve = func(n int) (time.Duration, bool) {
			if n == 3 {
				cancel()
			}
			return 0, n == 1
		}
		require.ErrorIs(t, supervise(rigid(0, &clerk), ctx, func(context.Context) error { return errCut }), context.Canceled)
		require.Len(t, clerk.asked, 3)
	})
}

func TestASupervisorSettlesWithTheBudgetWhenOpPanicsOrExits(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":  func() { panic("bug") },
		"Goexit": runtime.Goexit,
	} {
		for _, established := range []bool{false, true} {
			t.Run(fmt.Sprint(name, established), func(t *testing.T) {
				var clerk clerk
				p := backoff.Policy{Budget: &clerk}
				apart(func() {
					defer func() { recover() }()
					superviseReady(p, t.Context(), func(_ context.Context, ready func()) error {
						if established {
							ready()
						}
						leave()
						return nil
					})
				})
				require.Empty(t, clerk.out)
				require.Len(t, clerk.told, 1)
			})
		}
	}
}

func TestASupervisorPaysTheBudgetForAHealthyRunOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clerk clerk
		l := lineman{lasting: []time.Duration{0, 29 * time.Second, 30 * time.Second, 0}, err: errCut}
		runs := 0
		supervise(rigid(0, &clerk), t.Context(), func(ctx context.Context) error {
			if runs++; runs == 5 {
				return backoff.Permanent(l.run(ctx))
			}
			return l.run(ctx)
		})
		const failed, success = "failed", "success"
		require.Equal(t, []string{failed, failed, success, failed, "permanent"}, clerk.told)
	})
}

// The budget waits for a success, and the loop, which is all there is, for the
// budget.
func TestASupervisorComesBackUnderABudgetThatOnlySuccessPays(t *testing.T) {
	const outage = 30 * time.Minute
	for name, budget := range map[string]backoff.Budget{
		"alone":        new(backoff.RetryBudget),
		"among others": backoff.JoinBudgets(new(limit.Concurrency), new(backoff.RetryBudget)),
	} {
		bubble(t, name, func(t *testing.T) {
			ctx := within(t, time.Hour)
			began := time.Now()
			p := backoff.Policy{Budget: budget}
			tries := 0
			var back time.Duration
			supervise(p, ctx, func(ctx context.Context) error {
				up := time.Since(began)
				switch {
				case up == 0:
					return hold(ctx, 5*time.Minute)
				case up < outage:
					tries++
					return errCut
				}
				back = up
				return hold(ctx, time.Hour)
			})
			require.LessOrEqual(t, tries, 2+25/2, "two spare retries of a client that has just started, and one every 2 min")
			require.Greater(t, back, outage)
			require.Less(t, back, outage+2*time.Minute+2*30*time.Second, "a wait, 2 minutes of refusals, and the wait they end in")
		})
	}
}

func TestObserverIsToldOfEveryRunThatEndsUnderSuperviseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clerk := clerk{reserve: func(n int) (time.Duration, bool) { return 0, n == 2 || n == 5 || n == 6 }}
		p := rigid(3, &clerk)
		events := watch(&p)
		supervise(p, t.Context(), func(context.Context) error { return backoff.OfClass(errCut, backoff.ClassRetryable) })
		var refused []time.Duration
		seen := slices.DeleteFunc(*events, func(e backoff.Event) bool {
			if e.Kind == backoff.EventRefused {
				require.Equal(t, backoff.ReasonBudget, e.Reason)
				refused = append(refused, e.Wait)
			}
			return e.Kind == backoff.EventRefused
		})
		require.Equal(t, msec(100, 400, 800), refused)
		require.Len(t, seen, 3)
		require.Equal(t, backoff.EventReconnect, seen[0].Kind)
		for i, e := range seen {
			require.Equal(t, i+1, e.Attempt)
			require.ErrorIs(t, e.Err, errCut)
			require.Equal(t, backoff.ClassRetryable, e.Class)
		}
		require.Equal(t, msec(100, 1400, 1600), []time.Duration{seen[0].Slept, seen[1].Slept, seen[2].Slept})
		require.Equal(t, msec(200, 1600, 0), []time.Duration{seen[0].Wait, seen[1].Wait, seen[2].Wait})
		require.Equal(t, backoff.EventGiveUp, seen[2].Kind)
	})
}

func TestReadySettlesTheRunWithItsBudgetOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clerk := clerk{}
		var first func()
		runs := 0
		superviseReady(rigid(3, &clerk), t.Context(), func(_ context.Context, ready func()) error {
			switch runs++; runs {
			case 1:
				first = ready
				return errCut
			case 2:
				first()
				require.Len(t, clerk.out, 1, "a run that is over speaks for no other")
				ready()
				require.Empty(t, clerk.out)
				ready()
			}
			return errCut
		})
		const failed, success = "failed", "success"
		require.Equal(t, []string{failed, success, failed}, clerk.told)
	})
}

func TestReadyDoesNotMakeARunHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lineman{err: errCut}
		err := superviseReady(rigid(4, new(limit.Concurrency)), t.Context(), func(ctx context.Context, ready func()) error {
			ready()
			return l.run(ctx)
		})
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Equal(t, msec(100, 200, 400), l.waits)
	})
}

func TestReadyMayBeCalledFromAnywhereAtAnyTime(t *testing.T) {
	var clerk clerk
	p := backoff.Policy{Budget: &clerk, Schedule: backoff.Constant(0), MaxAttempts: 200}
	var callers sync.WaitGroup
	superviseReady(p, t.Context(), func(_ context.Context, ready func()) error {
		for range 4 {
			callers.Go(ready)
		}
		return errCut
	})
	callers.Wait()
	require.Empty(t, clerk.out)
	require.Len(t, clerk.told, 200)
}

// A client stays subscribed: whatever ends the subscription, it comes back.
func ExampleSupervisor() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	policy := backoff.Policy{Name: "subscribe", Schedule: backoff.Exponential{Initial: time.Millisecond}}
	runs := 0
	err := supervise(policy, ctx, func(ctx context.Context) error {
		runs++
		switch runs {
		case 1:
			fmt.Println("connected, and cut off")
			return errors.New("connection reset")
		case 2:
			fmt.Println("connected, and the server said goodbye")
			return nil
		}
		fmt.Println("connected, and shut down")
		cancel()
		return ctx.Err()
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// connected, and cut off
	// connected, and the server said goodbye
	// connected, and shut down
	// true
}

// Any number of clients may be connected, but only two of them connect at once.
func ExampleSupervisor_RunReady() {
	ctx, cancel := context.WithCancel(context.Background())
	connecting := limit.Concurrency{Max: 2}
	policy := backoff.Policy{Schedule: backoff.Constant(time.Millisecond), Budget: &connecting}

	var clients, connected sync.WaitGroup
	for range 50 {
		connected.Add(1)
		clients.Go(func() {
			superviseReady(policy, ctx, func(ctx context.Context, ready func()) error {
				// dial, log in, subscribe
				ready()
				connected.Done()
				<-ctx.Done() // receive
				return ctx.Err()
			})
		})
	}
	connected.Wait()
	fmt.Println("all connected,", connecting.Load(), "connecting")
	cancel()
	clients.Wait()
	// Output: all connected, 0 connecting
}

// A server that says "at once" every time must not make the loop spin.
func TestAServerCannotMakeAReconnectLoopSpin(t *testing.T) {
	runs := func(resetAfter, lasting time.Duration, cut error) (runs int) {
		synctest.Test(t, func(t *testing.T) {
			p := backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
			_ = resettingAfter(resetAfter, p).Run(within(t, time.Minute), func(context.Context) error {
				if runs++; runs == 1000 {
					return backoff.Permanent(errBoom)
				}
				time.Sleep(lasting)
				return cut
			})
		})
		return runs
	}
	atOnce := backoff.AtOnce(errCut)
	for _, resetAfter := range []time.Duration{-1, 0, 1} {
		require.Equal(t, 61, runs(resetAfter, 1, atOnce), "only the second run is at once")
		for _, d := range []time.Duration{0, time.Millisecond} {
			require.Less(t, runs(resetAfter, 1, backoff.Pushback(errBoom, d)), 100)
		}
	}
	require.Equal(t, 60, runs(1, time.Second+1, atOnce), "a run that lasted is followed at once")
}

func TestTheTimeThatARunTookIsWithoutTheWaitForItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &clerk{reserve: after(time.Second)}
		p := backoff.Policy{Budget: budget, Schedule: backoff.Constant(0), MaxAttempts: 2}
		require.Error(t, supervise(p, t.Context(), returning(errCut).lasting(10*time.Millisecond)))
		require.Equal(t, []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, budget.took())
	})
}
