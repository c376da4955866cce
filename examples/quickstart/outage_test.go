package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// picture returns the lines of an outage in virtual time.
func picture(t *testing.T) []string {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		err := outage(t.Context(), &out, func(context.Context) error {
			if down.Load() {
				return errors.New("503")
			}
			return nil
		}, func() { down.Store(true) })
		if err != nil {
			t.Error(err)
		}
	})
	return strings.Split(out.String(), "\n")
}

var second = regexp.MustCompile(`^ +(\d)s  █* ?(\d+) +[█▏]* ?(\d+)`)

// The attempts of the loop are known exactly: four for each of 250 calls. The
// waits of the library are random. It sends less than a retry for five calls,
// and nothing while the circuit is open, which is at least from second 3 to 5.
func TestBudgetAndBreakerStopTheAttempts(t *testing.T) {
	byHand, guarded := map[int]int{}, map[int]int{}
	for _, line := range picture(t) {
		if m := second.FindStringSubmatch(line); m != nil {
			n := atoi(t, m[1])
			byHand[n], guarded[n] = atoi(t, m[2]), atoi(t, m[3])
		}
	}
	for n, want := range []int{50, 145, 200, 200, 200, 200, 55} {
		if byHand[n+1] != want {
			t.Errorf("second %d: %d attempts of the loop, want %d", n+1, byHand[n+1], want)
		}
	}
	if guarded[1] != 50 || guarded[2] < 50 || guarded[2] > 60 || guarded[3] > 10 || guarded[4]+guarded[5] != 0 {
		t.Errorf("attempts of the library by second: %v", guarded)
	}
}

func TestTheSummaryCountsEveryCall(t *testing.T) {
	text := strings.Join(picture(t), "\n")
	for _, want := range []string{
		`loop by hand: +300 calls, 50 succeeded, 1050 attempts\n`,
		`budget and breaker: +300 calls, 50 succeeded, +1[0-2]\d attempts\n`,
		`down, the loop sent it 4\.0 attempts per call, and the library 0\.[23]\.\n`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no line like %s in\n%s", want, text)
		}
	}
}

func TestThePictureFitsInto80Columns(t *testing.T) {
	lines := picture(t)
	for _, line := range append(lines, row{10, counts{attempts: 200}, counts{attempts: 60, noBudget: 100}}.line()) {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestInterruptEndsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := outage(ctx, io.Discard, func(ctx context.Context) error { return ctx.Err() }, func() {})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second {
			t.Errorf("ended after %s with %v", time.Since(began), err)
		}
	})
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
