package backofftest

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/internal/force"
	"github.com/gobackoff/backoff/internal/force/overhttp"
)

// A path is what happens to a call whose retries are forced.
type path uint8

const (
	plain     path = iota // nothing
	unsent                // the first attempt is not made
	lost                  // it is made, and its result is lost
	late                  // its time is over
	permanent             // it is not made, and its error forbids a retry
	canceled              // it is not made, and the caller gives up
	givesUp               // no attempt is made, or the service is down
)

var paths = [...]string{"no fault", "an attempt that was not sent", "a lost answer", "a timeout", "a permanent error", "a cancellation", "failures until the policy gives up"}

func (p path) String() string { return paths[p] }

// Forced is a test whose retries are forced. [Force] makes one.
type Forced struct {
	t      testing.TB
	effect func() int
	*forcing
}

// Force makes the calls of [Forced.Run] take their retry paths, until the test
// ends. It takes the waits out of all calls, as [fault.NoWaits] does, and like
// that it is for the whole process: it panics in a test that runs in parallel.
//
// It forces calls of a [backoff.Policy], of a guard.Service and of a client of
// package backoffhttp, and sees the requests that they make by
// [http.DefaultTransport] or [Forced.Transport]. Hedges, polls and a
// [backoff.Supervisor] are not forced.
//
// Without Force, the environment variable BACKOFF_FORCE=1 forces all calls of a
// test binary that imports this package: of the first three calls at each line one
// fails before it is sent, one loses its answer, and one times out. Tests that
// count attempts fail then. What is found is written to standard error, which go
// test -v shows, in lines that begin with "forced: ". In programs that are no
// tests the variable has no effect.
func Force(t testing.TB) *Forced {
	t.Helper()
	fault.NoWaits(t)
	all.begin(nil, plain)
	all.sites, all.findings, all.suite = nil, nil, false
	t.Cleanup(all.install())
	return &Forced{t, func() int { return 0 }, all}
}

// Effect makes [Forced.Run] count what the calls do to the world, such as rows in
// a table: count returns how many there are. A call that succeeds must do in spite
// of faults what it does without, and one that fails no more than that.
func (f *Forced) Effect(count func() int) { f.effect = count }

// Transport returns base, whose requests [Forced.Run] sees, for a client that
// uses neither [http.DefaultTransport] nor package backoffhttp. A nil base is
// [http.DefaultTransport].
func (f *Forced) Transport(base http.RoundTripper) http.RoundTripper {
	return transport{f.forcing, nil, cmp.Or(base, http.DefaultTransport)}
}

// Run calls program once without a fault, and then with each fault at each line
// of it that calls a policy: an attempt that is not sent, a lost answer, a
// timeout, a permanent error, a cancellation, and failures until the policy gives
// up. program must do the same each time, and must return the error of a call that
// failed. Keys and ids must be new each time, made inside program: a service that
// takes each id once would do nothing the second time, which is found as a lost effect.
// The context of program ends when it has returned. Only the first call at a line gets
// faults: if all calls go through one helper, give each of its callers a Run.
//
// The test fails if a call is never retried, if a second attempt sends another
// body, another Idempotency-Key or fewer headers, or fails where it need not. It
// fails if an effect is doubled, if a context or an error is ignored, if
// something is left open, if nothing limits the attempts or delays them, if a
// permanent error or a whole call is repeated, and if two hosts share a breaker.
func (f *Forced) Run(program func(context.Context) error) {
	f.t.Helper()
	effect, err := f.once(nil, plain, program)
	if err != nil {
		f.t.Fatalf("the program fails without faults: %v", err)
	}
	if len(f.sites) == 0 {
		f.t.Fatal("the program calls no policy")
	}
	for p := unsent; p <= givesUp; p++ {
		for _, s := range slices.Clone(f.sites) {
			got, err := f.once(s, p, program)
			f.judge(s, p, got-effect, err)
		}
	}
	for _, finding := range f.findings {
		f.t.Error(finding)
	}
}

// once runs the program, with a path that is forced at a site. It returns what it did to
// the world.
func (f *Forced) once(s *site, p path, program func(context.Context) error) (effect int, err error) {
	f.begin(s, p)
	ctx, cancel := context.WithCancel(f.t.Context())
	before := f.effect()
	running := goroutines()
	err = program(ctx)
	cancel()
	f.leaks(running)
	return f.effect() - before, err
}

// install forces all calls of the process, until the function that it returns is called.
func (s *forcing) install() (remove func()) {
	client, own := s.client, http.DefaultTransport
	overhttp.Installed.Store(&client)
	if t, ok := own.(*http.Transport); ok { // programs rely on its type
		seen := t.Clone()
		seen.ForceAttemptHTTP2 = false // which would register https, too
		seen.RegisterProtocol("http", transport{s, nil, own})
		seen.RegisterProtocol("https", transport{s, nil, own})
		http.DefaultTransport = seen
	}
	force.On.Store(true)
	return func() {
		force.On.Store(false)
		overhttp.Installed.Store(nil)
		http.DefaultTransport = own
	}
}

// all is what forces retries in this process.
var all = &forcing{hosts: make(map[any]string), suite: os.Getenv("BACKOFF_FORCE") != "" && testing.Testing()}

func init() {
	force.OnStart, force.OnAttempt, force.OnResult, force.OnBreaker = all.start, all.attempt, all.result, all.breaker
	if all.begin(nil, plain); all.suite {
		all.install()
	}
}
