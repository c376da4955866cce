package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// count returns a number and its noun.
func count(n uint64, one, many string) string {
	if n == 1 {
		many = one
	}
	return number(n) + " " + many
}

// times says how often something happened.
func times(n uint64) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return count(n, "", "times")
}

// number returns a number, with commas if it is long.
func number(n uint64) string {
	text := strconv.FormatUint(n, 10)
	if n < 10_000 {
		return text
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// callsText returns a number of calls in words.
func callsText(n uint64) string { return count(n, "call", "calls") }

// decimal returns a ratio with one decimal.
func decimal(a, b uint64) string {
	return strconv.FormatFloat(float64(a)/float64(max(1, b)), 'f', 1, 64)
}

// shares divides a number of per cent among parts, in whole numbers whose sum is
// that number: those that were rounded down by most are rounded up instead.
func shares(of int, parts ...uint64) []int {
	var whole uint64
	for _, p := range parts {
		whole += p
	}
	percent, rest := make([]int, len(parts)), make([]float64, len(parts))
	if whole == 0 {
		return percent
	}
	left := of
	for i, p := range parts {
		exact := float64(of) * float64(p) / float64(whole)
		percent[i] = int(exact)
		rest[i] = exact - float64(percent[i])
		left -= percent[i]
	}
	for ; left > 0; left-- {
		most := 0
		for i := range rest {
			if rest[i] > rest[most] {
				most = i
			}
		}
		percent[most]++
		rest[most] = -1
	}
	return percent
}

// percentText returns a part in per cent. Some is never 0 %, and not all is
// never 100 %.
func percentText(percent int, part, whole uint64) string {
	switch {
	case part > 0 && percent == 0:
		return "less than 1 %"
	case part < whole && percent == 100:
		return "more than 99 %"
	}
	return strconv.Itoa(percent) + " %"
}

// share returns a part in per cent.
func share(part, whole uint64) string {
	return percentText(shares(100, part, whole-part)[0], part, whole)
}

// durationText returns a duration in words, in one unit.
func durationText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Millisecond:
		return "less than 1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d.Truncate(time.Second/10))/1e9, 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 2*day:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// list joins names. Of many names it returns the first three, and how many more
// there are.
func list(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}
