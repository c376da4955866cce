package backofftest

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/shape"
)

func TestJittersOfThePackagePass(t *testing.T) {
	for _, j := range []backoff.Jitter{
		backoff.NoJitter, backoff.FullJitter, backoff.EqualJitter, backoff.DecorrelatedJitter(0, -1),
		backoff.UniformJitter(0.5, 1.5), shape.Added(time.Second), shape.Slotted(time.Millisecond),
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
