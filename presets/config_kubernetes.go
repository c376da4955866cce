package presets

import (
	"cmp"
	"math"
	"sort"
	"time"

	"github.com/gobackoff/backoff"
)

// KubernetesBackoff is wait.Backoff of Kubernetes' apimachinery, as
// wait.ExponentialBackoff, retry.OnError and retry.RetryOnConflict read it. It
// has the same fields, so a wait.Backoff can be converted:
//
//	policy, err := presets.KubernetesBackoff(retry.DefaultRetry).Policy()
//
// No field has a default. A loop that calls Step, Timer or DelayWithReset
// itself reads Steps otherwise, as the number of delays that grow, and has no
// end. It is not what Policy makes.
//
// Source: apimachinery, util/wait, and client-go, util/retry; measured with
// v0.37.2.
type KubernetesBackoff struct {
	// Duration is the delay before the first retry, 0 or more. 0 means none
	// before any retry.
	Duration time.Duration
	// Factor is the factor between two delays, 0 or more. 0 means that they do
	// not grow. With a factor below 1 they shrink.
	Factor float64
	// Jitter is the share of the delay up to which a random wait is added. 0
	// and negative mean no jitter.
	Jitter float64
	// Steps is the number of attempts, at least 1: with 0 and less nothing is
	// ever tried, which is an error here.
	Steps int
	// Cap ends the call, and not only the growth: a delay whose successor would
	// be above Cap is the last one, and no attempt follows it. With a Cap below
	// Duration there is a single attempt. 0 and negative mean none. Without a
	// Factor it does nothing.
	Cap time.Duration
}

// Policy returns the policy of a loop with this backoff. Where Cap ends the
// loop, MaxAttempts is below Steps. There a loop that Cap ends also sleeps
// after its last attempt; here the call returns at once.
func (b KubernetesBackoff) Policy() (backoff.Policy, error) {
	err := cmp.Or(
		check(b.Duration >= 0, "KubernetesBackoff.Duration", b.Duration, "0 or more"),
		check(b.Factor >= 0 && b.Factor <= math.MaxFloat64,
			"KubernetesBackoff.Factor", b.Factor, "0 (for no growth) or more"),
		check(math.Abs(b.Jitter) <= math.MaxFloat64, "KubernetesBackoff.Jitter", b.Jitter, "a number"),
		check(b.Steps >= 1, "KubernetesBackoff.Steps", b.Steps, "at least 1"),
	)
	if err != nil {
		return backoff.Policy{}, err
	}
	schedule := b.schedule()
	return backoff.Policy{
		MaxAttempts: b.attempts(schedule),
		Schedule:    schedule,
		Jitter:      between(1, 1+max(b.Jitter, 0)),
	}, nil
}

// schedule returns the delays, to which Cap means nothing.
func (b KubernetesBackoff) schedule() backoff.Schedule {
	if b.Factor >= 1 || b.Factor == 0 {
		return growing(b.Duration, -1, b.Factor)
	}
	return backoff.ScheduleFunc(func(retry int) time.Duration {
		return time.Duration(float64(b.Duration) * math.Pow(b.Factor, float64(retry-1)))
	})
}

// attempts returns the number of attempts: Steps, or as many as there are up to
// the first delay whose successor is above Cap.
func (b KubernetesBackoff) attempts(schedule backoff.Schedule) int {
	switch beyond := func(i int) bool { return schedule.Delay(i+2) > b.Cap }; {
	case b.Cap <= 0 || b.Factor == 0:
		return b.Steps
	case b.Factor > 1:
		return 1 + sort.Search(b.Steps-1, beyond)
	case beyond(0):
		return 1
	}
	return b.Steps
}
