package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The picture has a bar for each lane, both to the same scale, and what became
// of the client's calls in that second.
const (
	scale   = 12 // attempts per cell
	left    = 23 // columns of the lane by hand, with its number
	right   = 13 // columns of the other lane
	heading = "      loop by hand             backoffhttp.Client"
)

// A row is one second of the picture.
type row struct {
	second          int
	byHand, library counts
}

func (r row) line() string {
	a, b := bar(r.byHand.attempts, left), bar(r.library.attempts, right)
	return strings.TrimRight(fmt.Sprintf("%3ds  %s  %s  %s", r.second, a, b, r.note()), " ")
}

// note says what became of most calls of the client: they succeeded, or wait, or
// the budget refused their retries, or the breaker refused them.
func (r row) note() string {
	c := r.library
	switch most := max(c.successes, c.waiting, c.noBudget, c.open); {
	case most == 0:
		return ""
	case most == c.successes:
		return fmt.Sprintf("succeeded: %d", most)
	case most == c.waiting:
		return fmt.Sprintf("waiting: %d", most)
	case most == c.open:
		return fmt.Sprintf("stopped by breaker: %d", most)
	default:
		return fmt.Sprintf("stopped by budget: %d", most)
	}
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

// summary says what the service was sent in the time of the row, while it was
// down, and how many of all calls succeeded.
func (r row) summary(all row) string {
	return fmt.Sprintf("While the server was down, %d calls became %d attempts of the loop, and %d of\n"+
		"the client. Of all %d calls, %d of the loop succeeded, and %d of the client.\n",
		r.library.calls, r.byHand.attempts, r.library.attempts,
		all.library.calls, all.byHand.successes, all.library.successes)
}
