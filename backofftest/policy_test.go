package backofftest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// recorder is a test that must fail.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) {
	r.said = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// complaint returns the failure that check reports.
func complaint(t *testing.T, check func(testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	return r.said
}

// requireCaught requires check to report a failure that contains want.
func requireCaught(t *testing.T, want string, check func(testing.TB)) {
	t.Helper()
	require.Contains(t, complaint(t, check), want)
}

func TestSchedulesOfThePackagePass(t *testing.T) {
	for _, s := range []backoff.Schedule{
		backoff.Constant(time.Second), backoff.Linear{}, backoff.Exponential{}, backoff.Exponential{Max: -1},
		backoff.Linear{Step: maxDuration, Max: -1}, backoff.Truncate(backoff.Exponential{}, time.Second), backoff.Sequence(1, 2, 3),
	} {
		Schedule(t, s)
	}
}

// method is a Schedule without the checks of ScheduleFunc.
type method func(int) time.Duration

func (m method) Delay(retry int) time.Duration { return m(retry) }

func TestASchedulesFaultsAreFound(t *testing.T) {
	for want, s := range map[string]method{
		"there is no such retry": func(int) time.Duration { return time.Second },
		"must saturate":          func(n int) time.Duration { return time.Duration(min(1, max(0, n))) << max(0, n) },
		"has no state": func(n int) time.Duration {
			if n <= 0 {
				return 0
			}
			return time.Duration(rand.Int64())
		},
	} {
		requireCaught(t, want, func(t testing.TB) { Schedule(t, s) })
	}
}

func TestJittersOfThePackagePass(t *testing.T) {
	for _, j := range []backoff.Jitter{
		backoff.NoJitter, backoff.FullJitter, backoff.EqualJitter, backoff.DecorrelatedJitter(0, -1),
		backoff.UniformJitter(0.5, 1.5), backoff.AddedJitter(time.Second), backoff.SlottedJitter(time.Millisecond),
	} {
		Jitter(t, j)
	}
}

func TestAJittersFaultsAreFound(t *testing.T) {
	var last atomic.Int64
	for want, j := range map[string]backoff.Jitter{
		"must saturate": func(d, _ time.Duration, u float64) time.Duration { return d + time.Duration(float64(d)*u) },
		"what is random": func(d, _ time.Duration, _ float64) time.Duration {
			return time.Duration(rand.Int64N(int64(d/2 + 1)))
		},
		"in prev": func(d, _ time.Duration, _ float64) time.Duration { return time.Duration(last.Swap(int64(d))) },
	} {
		requireCaught(t, want, func(t testing.TB) { Jitter(t, j) })
	}
}

func TestBudgetsPass(t *testing.T) {
	Budget(t, func() backoff.Budget { return new(backoff.RetryBudget) })
}

// free is a budget of ten tokens that grants first attempts unasked, with a
// fault.
type free struct{ tokens }

func (b *free) GrantsFirst() bool { return true }

func (b *free) Reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	if a.First() {
		return t, 0, b.fault != "asked after all"
	}
	return b.tokens.Reserve(a)
}

// tokens is a budget of ten tokens, with a fault. If that is "", the budget still
// gives tokens to attempts that only wait.
type tokens struct {
	backoff.BudgetDefaults

	fault string
	used  atomic.Int64
	last  atomic.Uint64 // ticket
	given sync.Map      // by ticket
}

func (b *tokens) Reserve(backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	switch b.fault {
	case "negative wait":
		wait = -1
	case "looks first":
		n := b.used.Load()
		time.Sleep(time.Millisecond)
		return t, 0, n < 10 && b.used.Add(1) > 0
	}
	if b.used.Add(1) > 10 {
		b.used.Add(-1)
		return t, 0, false
	}
	t.Word = b.last.Add(1)
	b.given.Store(t.Word, true)
	return t, wait, true
}

func (b *tokens) Done(t backoff.Ticket, r backoff.Result) {
	_, given := b.given.LoadAndDelete(t.Word)
	if r.Outcome == backoff.OutcomeNotSent && (given || b.fault == "gives twice") {
		b.used.Add(-1)
	}
}

func (b *tokens) Validate() error {
	if b.fault == "invalid" {
		return errService
	}
	return nil
}

func TestABudgetsFaultsAreFound(t *testing.T) {
	for fault, want := range map[string]string{
		"invalid":       "the service is down",
		"negative wait": "negative wait",
		"looks first":   "looking and granting must be one step",
		"gives twice":   "a second Done",
		"":              "because of others that only wait",
	} {
		requireCaught(t, want, func(t testing.TB) {
			Budget(t, func() backoff.Budget { return &tokens{fault: fault} })
		})
	}
}

func TestABudgetThatIsNotAskedIsChecked(t *testing.T) {
	for fault, want := range map[string]string{
		"asked after all": "does not grant a first attempt at once",
		"gives twice":     "gives back what was never taken",
	} {
		requireCaught(t, want, func(t testing.TB) {
			require.NoError(t, checkGrantsFirst(new(free), time.Now(), 10))
			if err := checkGrantsFirst(&free{tokens{fault: fault}}, time.Now(), 10); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAnObserverThatOnlyCountsPasses(t *testing.T) {
	var n atomic.Int64
	Observer(t, func(context.Context, backoff.Event) { n.Add(1) })
	require.Positive(t, n.Load())
}

func TestAnObserversFaultsAreFound(t *testing.T) {
	for want, o := range map[string]backoff.Observer{
		"panicked":           func(_ context.Context, e backoff.Event) { _ = e.Err.Error() },
		"changed the header": nil,
	} {
		if o == nil {
			var once atomic.Bool
			o = func(_ context.Context, e backoff.Event) {
				if e.Header != nil && once.CompareAndSwap(false, true) {
					e.Header["Retry-After"][0] = "gone"
				}
			}
		}
		requireCaught(t, want, func(t testing.TB) { Observer(t, o) })
	}
}
