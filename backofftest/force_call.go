package backofftest

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/internal/clock"
)

// forcing forces the retries of a process.
type forcing struct {
	suite bool // what is found is printed

	mu       sync.Mutex
	sites    []*site // in the order in which they were seen
	target   *site   // whose calls are forced; nil for none
	path     path    // that they take
	calls    []*call // since begin
	count    map[*site]int
	findings []string
	hosts    map[any]string // of breakers
}

// A site is a line that calls a policy.
type site struct {
	at       string
	limit    int           // most attempts; negative for no limit
	elapsed  time.Duration // if it is positive, MaxElapsed
	once     bool          // what was sent may not be sent again
	requests bool          // it sends requests over HTTP
	guarded  bool          // it calls a guard.Service, which may begin the call again
	plain    int           // calls without a fault
	taken    path          // the last one in a suite
}

// A call is one call of a policy, or of a client over HTTP.
type call struct {
	*site
	path   path
	cancel context.CancelFunc

	made      bool          // a fault was
	number    int           // of attempts
	inAttempt int           // requests of the present one
	ended     time.Time     // when the last one ended
	waited    time.Duration // between them
	sent      []request
}

// mostForced is how many attempts of a call, and calls of a site, fail at most.
const mostForced = 50

// begin begins a run whose calls at a site take a path.
func (s *forcing) begin(target *site, p path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target, s.path, s.calls, s.count = target, p, nil, make(map[*site]int)
}

type contextKey string

// callOf returns the call that ctx was given to. Without a site, it is not forced.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(contextKey("call")).(*call)
	return c
}

// unforced returns a context for what is a part of a call that is forced elsewhere.
func unforced(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey("call"), new(call))
}

// ended returns a context whose deadline is over.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithDeadline(ctx, time.Now())
	cancel()
	return ctx
}

// open begins a call. The context of its caller is ctx.
func (s *forcing) open(ctx context.Context, w where) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.siteAt(w.at)
	at.guarded = w.guarded
	c, before := &call{site: at}, s.count[at]
	switch {
	case s.suite && at.taken < late:
		at.taken++
		c.path = at.taken
	case s.target == nil:
		at.plain++
	case s.target == at && (before == 0 || s.path == givesUp && !at.guarded && before < mostForced):
		c.path = s.path
	}
	if callOf(ctx) == nil {
		s.lostContext(w)
	}
	if s.target == at && s.path >= permanent && !at.guarded && before == at.plain {
		s.found(w.at, "multiplied", "the call is made again after %v", s.path)
	}
	if s.count[at]++; !s.suite {
		s.calls = append(s.calls, c)
	}
	return c
}

// siteAt returns the site at a line.
func (s *forcing) siteAt(line string) *site {
	for _, at := range s.sites {
		if at.at == line {
			return at
		}
	}
	s.sites = append(s.sites, &site{at: line})
	return s.sites[len(s.sites)-1]
}

// start is the hook of a call.
func (s *forcing) start(ctx context.Context, limit int, elapsed time.Duration, repeatable bool) context.Context {
	w := caller()
	if w.at == "" {
		return unforced(ctx)
	}
	s.mu.Lock()
	at := s.siteAt(w.at)
	at.limit, at.elapsed, at.once = limit, elapsed, !repeatable
	s.mu.Unlock()
	if w.client { // whose requests are its attempts
		return unforced(ctx)
	}
	if c := callOf(ctx); c != nil && c.site == at { // after Run.Reset
		return ctx
	}
	c := s.open(ctx, w)
	if c.path == canceled {
		ctx, c.cancel = context.WithCancel(ctx)
	}
	return context.WithValue(ctx, contextKey("call"), c)
}

// attempt is the hook before an attempt.
func (s *forcing) attempt(ctx context.Context) (context.Context, error) {
	c := callOf(ctx)
	if c == nil || c.site == nil {
		return ctx, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next(ctx, c)
	p := c.fault()
	switch {
	case p == canceled:
		c.cancel()
	case p == plain, p == lost, p != late && c.requests: // a request fails where it is sent
		return ctx, nil
	}
	c.made, c.ended = true, clock.Now()
	if p == late {
		return ended(ctx), nil
	}
	return ctx, p.err(ctx)
}

// next counts an attempt.
func (s *forcing) next(ctx context.Context, c *call) {
	c.inAttempt = 0
	if c.number++; c.number > 1 {
		c.waited += clock.Now().Sub(c.ended)
	}
	_, bounded := ctx.Deadline()
	switch {
	case c.number == 2 && c.path == permanent:
		s.found(c.at, "permanent", "it retries %v", permanent.err(ctx))
	case c.number > mostForced && c.limit < 0 && c.elapsed <= 0 && !bounded:
		s.found(c.at, "no limit", "it has neither MaxAttempts nor MaxElapsed nor a deadline")
	}
}

// fault returns what happens to the present attempt.
func (c *call) fault() path {
	exempt := c.once && (c.path == lost || c.path == late)
	if !exempt && c.number == 1 || c.path == givesUp && c.number <= mostForced {
		return c.path
	}
	return plain
}

// result is the hook after an operation.
func (s *forcing) result(ctx context.Context, err error) error {
	c := callOf(ctx)
	if c == nil || c.site == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ended = clock.Now()
	over, _ := ctx.Deadline()
	switch p := c.fault(); {
	case p == late && time.Since(over) > time.Second:
		s.found(c.at, "context", "an attempt goes on after its context has ended")
	case p == lost && err == nil && !c.requests:
		c.made = true
		return p.err(ctx)
	}
	return err
}

var faults = [...]fault.Fault{unsent: fault.Reset(), lost: fault.Lost(), permanent: fault.Status(400), canceled: fault.OK(), givesUp: fault.Status(503)}

// err returns the error of an attempt.
func (p path) err(ctx context.Context) error {
	if p == unsent || p == canceled {
		return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "server misbehaving", Name: "forced.test", IsTemporary: true}}
	}
	fails := fault.Injector{Plan: fault.Script(faults[p])}
	return fails.Op(func(context.Context) error { return nil })(ctx)
}

// where is what the stack says of a call.
type where struct {
	at      string // the line that makes it
	client  bool   // it is one of package backoffhttp
	guarded bool   // a guard.Service makes it
	attempt string // the line of the call in an attempt of which it is made
}

// caller returns where a call of the library comes from. Its line is "" if it is not forced.
func caller() (w where) {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	inside := false
	for f, more := frames.Next(); more; f, more = frames.Next() {
		name, own := isLibrary(f.Function, f.File)
		line := fmt.Sprintf("%s:%d", f.File, f.Line)
		switch {
		case own && unforcedIn.MatchString(name):
			return where{}
		case own && w.at == "":
			w.client = w.client || strings.HasPrefix(name, "/backoffhttp")
			w.guarded = w.guarded || strings.HasPrefix(name, "/guard")
		case own:
			inside = inside || name == ".(*Policy).run" || name == ".(*Run).each"
		case w.at == "" && !standard.MatchString(name):
			w.at = line
		case inside && w.attempt == "":
			w.attempt = line
		}
	}
	return w
}

// unforcedIn matches functions of this library whose calls are not forced.
var unforcedIn = regexp.MustCompile(`^(\.Supervisor\.|/poll)`)

// standard matches functions of the standard library that call others.
var standard = regexp.MustCompile(`^(net/http|runtime|testing)\.`)

// here is this file. Its name begins as those of all files of the library.
var _, here, _, _ = runtime.Caller(0)

// isLibrary reports whether a function is one of this library. What the compiler has put
// into a function of a program has the name of that, and the file of the library.
func isLibrary(function, file string) (name string, own bool) {
	name, own = strings.CutPrefix(function, "github.com/gobackoff/backoff")
	path, inside := strings.CutPrefix(file, strings.TrimSuffix(here, "backofftest/force_call.go"))
	return name, (inside || own && !strings.HasPrefix(name, "/examples")) && !strings.HasPrefix(path, "examples/") && !strings.Contains(file, "_test.go")
}
