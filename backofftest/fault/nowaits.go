package fault

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// NoWaits makes all waits of package backoff and its guards take no time until
// the test ends: those of schedules, those that a server asks for, and those of
// lines, limits, pacers and open circuits. It is for tests that cannot run in a
// bubble of testing/synctest. Call it before the test uses the library. It is for
// the whole process, so it panics in a test that runs in parallel.
//
// The clock of the library jumps ahead to the end of a wait: a circuit that a
// call waits for is half-open then. Observers hear of the waits as they would
// be. A call makes as many attempts as with its waits. MaxElapsed and deadlines
// count what really passes: a call that they alone limit tries as often as it
// can. In the line of a guard.Service, a call still ends when its waits would
// have used up its time.
//
// What is no wait keeps its time: attempt timeouts, the delays of hedges, and
// [time.Sleep] in the test. A circuit for which no call waits opens after the
// real time.
func NoWaits(t testing.TB) {
	t.Helper()
	t.Setenv("BACKOFF_NO_WAITS", "1") // panics in a parallel test
	install()
	skipping.Store(true)
	t.Cleanup(func() { skipping.Store(false) })
}

var (
	skipping atomic.Bool
	skipped  atomic.Int64 // it never goes back, for what outlives a test
	install  = sync.OnceFunc(func() {
		clock.Source = func() time.Time { return time.Now().Add(time.Duration(skipped.Load())) }
		clock.Skip = skip
	})
)

// skip moves the clock ahead to the end of a wait of d, unless it is there already: of
// waits that begin together the longest counts. It reports whether waits are skipped.
func skip(d time.Duration) bool {
	if d <= 0 || !skipping.Load() {
		return skipping.Load()
	}
	now, end := time.Now(), skipped.Load()+int64(d)
	runtime.Gosched() // let others begin their waits
	end -= int64(time.Since(now))
	for was := skipped.Load(); was < end && !skipped.CompareAndSwap(was, end); was = skipped.Load() {
	}
	return true
}
