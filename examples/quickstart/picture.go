package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The picture has two lanes. Each has a bar for the attempts of a second, both to
// the same scale, the calls that succeeded in it, and those that wait at its end.
const (
	scale = 25 // attempts per cell
	left  = 13 // columns of the bar of the lane by hand, with its number
	right = 16 // columns of the other bar
)

const heading = `      loop by hand                       backoffhttp.Client
      attempts       succeeded  waiting  attempts          succeeded  waiting`

// A row is one second of the picture.
type row struct {
	second          int
	byHand, library counts
}

func (r row) line() string {
	return fmt.Sprintf("%3ds  %s  %s", r.second, r.byHand.columns(left), r.library.columns(right))
}

// columns are those of one lane. The bar takes width.
func (c counts) columns(width int) string {
	return fmt.Sprintf("%s  %9d  %7d", bar(c.attempts, width), c.successes, c.waiting)
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
