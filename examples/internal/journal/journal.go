// Package journal prints what happens in an example: a line for each event,
// with the time since the start, and the sum of all attempts at the end.
package journal

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// A Journal writes the lines of one example. It is safe for concurrent use.
type Journal struct {
	mu       sync.Mutex
	out      io.Writer
	began    time.Time
	attempts int
	waited   time.Duration
}

// Main runs an example for 15 seconds at most. If it fails, the program ends with
// status 1.
func Main(run func(context.Context, io.Writer) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// New returns a journal that starts now.
func New(out io.Writer) *Journal { return &Journal{out: out, began: time.Now()} }

// Say writes a line.
func (j *Journal) Say(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.out, "%6.3fs  %s\n", time.Since(j.began).Seconds(), fmt.Sprintf(format, args...))
}

// Observe is a [backoff.Observer]. It writes a line for each event.
func (j *Journal) Observe(_ context.Context, e backoff.Event) {
	j.count(e)
	switch e.Kind {
	case backoff.EventRetry:
		j.Say("%s failed: %v (%v)%s; again in %v", attempt(e), e.Err, e.Class, asked(e), Round(e.Wait))
	case backoff.EventReconnect:
		j.Say("%s ended: %v; again in %v", attempt(e), e.Err, Round(e.Wait))
	case backoff.EventSuccess:
		j.Say("%s succeeded", attempt(e))
	case backoff.EventGiveUp:
		if e.Waiting || e.Attempt == 0 {
			j.Say("no attempt %d, gave up: %v", e.Attempt+1, e.Reason)
			return
		}
		j.Say("%s failed: %v (%v)%s; gave up: %v", attempt(e), e.Err, e.Class, asked(e), e.Reason)
	case backoff.EventTransition:
		j.Say("circuit of %s: from %v to %v", e.Name, e.Transition.From, e.Transition.To)
	case backoff.EventRefused:
		j.Say("%s refuses: %v", e.Name, e.Reason)
	default:
		j.Say("%v", e.Kind)
	}
}

// count counts the attempts, and the waits that are announced.
func (j *Journal) count(e backoff.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch e.Kind {
	case backoff.EventRetry, backoff.EventReconnect, backoff.EventSuccess, backoff.EventHedgeWon, backoff.EventHedgeLost:
		j.attempts++
	case backoff.EventGiveUp:
		if e.Attempt > 0 && !e.Waiting {
			j.attempts++
		}
	}
	j.waited += e.Slept
}

// Sum writes how many attempts there were, and how long they and the waits
// between them took.
func (j *Journal) Sum() {
	j.mu.Lock()
	attempts, waited, took := j.attempts, Round(j.waited), Round(time.Since(j.began))
	j.mu.Unlock()
	j.Say("in all: %s in %v, with waits of %v", Count(attempts, "attempt"), took, waited)
}

// Count returns "1 attempt", "2 attempts" and so on.
func Count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// attempt names the attempt that an event is about.
func attempt(e backoff.Event) string {
	if e.MaxAttempts > 0 {
		return fmt.Sprintf("attempt %d of %d", e.Attempt, e.MaxAttempts)
	}
	return fmt.Sprintf("attempt %d", e.Attempt)
}

// asked says how long the server asked the client to wait.
func asked(e backoff.Event) string {
	if e.RetryAfter == 0 {
		return ""
	}
	return fmt.Sprintf(", server asks for %v", e.RetryAfter)
}

// Round rounds a duration to milliseconds.
func Round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

var (
	stamp = regexp.MustCompile(`(?m)^ *\d+\.\d{3}s  `)
	span  = regexp.MustCompile(`(in|waits of) (\d+m)?\d+(\.\d+)?(ms|s)\b`)
	port  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// Normal returns what a journal wrote, without the times and ports that differ
// from run to run. It is for tests.
func Normal(text string) string {
	text = stamp.ReplaceAllString(text, "")
	text = span.ReplaceAllString(text, "$1 TIME")
	return port.ReplaceAllString(text, "HOST")
}
