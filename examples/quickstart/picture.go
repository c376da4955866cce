package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The picture has a bar for each lane, both to the same scale, and what the
// budget and the breaker did in the second.
const (
	scale   = 8  // attempts per cell
	left    = 31 // columns of the lane by hand, with its number
	right   = 13 // columns of the other lane
	heading = "      loop by hand                     budget and breaker"
)

// A row is one second of the picture.
type row struct {
	second          int
	byHand, guarded counts
}

func (r row) line() string {
	a, b := bar(r.byHand.attempts, left), bar(r.guarded.attempts, right)
	return strings.TrimRight(fmt.Sprintf("%3ds  %s  %s  %s", r.second, a, b, r.note()), " ")
}

// note says what stopped most attempts in that second: retries by the budget,
// or calls by the breaker.
func (r row) note() string {
	switch noBudget, open := r.guarded.noBudget, r.guarded.open; {
	case open > noBudget:
		return fmt.Sprintf("stopped by breaker: %d", open)
	case noBudget > 0:
		return fmt.Sprintf("stopped by budget: %d", noBudget)
	}
	return ""
}

// bar draws n attempts and their number, filled with spaces to a width. Few
// attempts are a thin line, none are nothing.
func bar(n, width int) string {
	text := "0"
	if n > 0 {
		text = cmp.Or(strings.Repeat("█", (n+scale/2)/scale), "▏") + " " + strconv.Itoa(n)
	}
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// summary says what became of all calls, and what the server got while it was
// down.
func summary(byHand, guarded counts) string {
	const line = "%-20s %d calls, %d succeeded, %4d attempts\n"
	return fmt.Sprintf(line, "loop by hand:", byHand.calls, byHand.successes, byHand.attempts) +
		fmt.Sprintf(line, "budget and breaker:", guarded.calls, guarded.successes, guarded.attempts) +
		fmt.Sprintf("\nThe budget stopped %d retries, and the breaker %d calls. While the server was\n", guarded.noBudget, guarded.open) +
		fmt.Sprintf("down, the loop sent it %.1f attempts per call, and the library %.1f.\n", byHand.perFailure(), guarded.perFailure())
}

// perFailure is the number of attempts per call that did not succeed. In the
// quickstart a call that succeeds makes one attempt.
func (c counts) perFailure() float64 {
	return float64(c.attempts-c.successes) / float64(max(1, c.calls-c.successes))
}
