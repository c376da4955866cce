package backofftest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
)

// found notes the first mistake of a kind at a line.
func (s *forcing) found(line, kind, format string, args ...any) {
	kind = line + ": " + kind + ": "
	if slices.ContainsFunc(s.findings, func(f string) bool { return strings.HasPrefix(f, kind) }) {
		return
	}
	finding := kind + fmt.Sprintf(format, args...)
	s.findings = append(s.findings, finding)
	if s.suite {
		fmt.Fprintln(os.Stderr, "forced:", finding)
	}
}

// judge finds what is wrong with a run in which calls of a site took a path. more is what
// it did to the world beyond a run without faults, and err is its error.
func (s *forcing) judge(at *site, p path, more int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.calls, func(c *call) bool { return c.path == p && c.site == at && c.made })
	if i < 0 {
		return
	}
	c := s.calls[i]
	if p >= permanent {
		s.mustFail(c, err)
	} else if err != nil && !errors.Is(err, backoff.ErrBudget) && !errors.Is(err, backoff.ErrOpen) && !errors.Is(err, context.DeadlineExceeded) {
		s.mayFail(c, err)
	}
	if more > 0 || more < 0 && err == nil {
		s.found(at.at, "effect", "%+d after %v", more, p)
	}
}

// mustFail finds what is wrong with a run in which a call had to fail.
func (s *forcing) mustFail(c *call, err error) {
	instead := slices.ContainsFunc(s.sites, func(other *site) bool { return s.count[other] > other.plain }) // a fallback
	if err == nil && c.number <= mostForced && !instead {
		s.found(c.at, "error", "the program does not return the error of a call that failed by %v", c.path)
	}
	if c.path == givesUp && c.number > 2 && c.waited < time.Millisecond {
		s.found(c.at, "no delay", "its attempts follow each other at once")
	}
}

// mayFail finds what is wrong with a run that failed although a retry could succeed.
func (s *forcing) mayFail(c *call, err error) {
	switch {
	case c.number > 1:
		s.found(c.at, "retry", "the second attempt fails after %v: %v", c.path, err)
	case c.path == unsent && c.limit != 1:
		s.found(c.at, "no retry", "an attempt that was not sent ends the call: %v", err)
	}
}

// lostContext finds what is done in an attempt without its context.
func (s *forcing) lostContext(w where) {
	if w.attempt != "" {
		s.found(w.attempt, "context", "%s does not use that of the attempt", w.at)
	}
}

// compare compares the last request of a call with that of its first attempt.
func (s *forcing) compare(c *call) {
	last, n := c.sent[len(c.sent)-1], c.inAttempt-1
	if c.number == 1 || n >= len(c.sent) || c.sent[n].attempt != 1 {
		return
	}
	want, got := c.sent[n].Attempts()[0], last.Attempts()[0]
	switch same := want.Method == got.Method && want.Path == got.Path; {
	case !same:
		return
	case want.Whole && got.Whole && want.Sum != got.Sum && want.Fault != faults[unsent]:
		s.found(c.at, "body", "attempt %d sends another one than the first: %d bytes, not %d", c.number, got.Length, want.Length)
	case want.Key != got.Key:
		s.found(c.at, "key", "attempt %d sends another Idempotency-Key than the first", c.number)
	}
	for name := range c.sent[n].header {
		if last.header[name] == nil && name != "Cookie" { // which a response may take away
			s.found(c.at, "header", "attempt %d sends no %s", c.number, name)
		}
	}
}

// breaker is the hook before what a breaker lets pass.
func (s *forcing) breaker(ctx context.Context, b any) context.Context {
	return context.WithValue(ctx, contextKey("breaker"), b)
}

// sharedBreaker finds a breaker, not nil, that guards two hosts.
func (s *forcing) sharedBreaker(c *call, b any, host string) {
	if other := s.hosts[b]; b != nil && other != "" && other != host {
		s.found(c.at, "breaker", "%s and %s share one", other, host)
	}
	s.hosts[b] = host
}

// leaks finds responses that were left open, and lines that have begun goroutines, two at
// least since before, that go on.
func (s *forcing) leaks(before map[string]int) {
	few := func(line string, n int) bool { return n-before[line] < 2 }
	left := goroutines()
	for tries := 100; ; tries-- {
		if maps.DeleteFunc(left, few); len(left) == 0 || tries == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond) // they may be about to end
		left = goroutines()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range left {
		s.found(line, "leak", "goroutines that it begins go on after the calls")
	}
	for _, c := range s.calls {
		for _, r := range c.sent {
			if r.Attempts()[0].Open {
				s.found(c.at, "leak", "the body of a response is not closed")
			}
		}
	}
}

var begun = regexp.MustCompile(`(?m)^created by (\S+).*\n\t(\S+)`)

// goroutines counts the goroutines of the process by the line that began them, without
// those of the standard library and of this one.
func goroutines() map[string]int {
	stacks := make([]byte, 1<<20)
	lines := make(map[string]int)
	for _, m := range begun.FindAllSubmatch(stacks[:runtime.Stack(stacks, true)], -1) {
		function, line := string(m[1]), string(m[2])
		if _, own := isLibrary(function, line); !own && !standard.MatchString(function) {
			lines[line]++
		}
	}
	return lines
}
