package page

import (
	"fmt"
	"math"
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

// share returns a part in per cent. Some is never 0 %, and not all is never
// 100 %.
func share(part, whole uint64) string {
	percent := math.Round(100 * float64(part) / float64(max(1, whole)))
	switch {
	case part > 0 && percent == 0:
		return "less than 1 %"
	case part < whole && percent == 100:
		return "more than 99 %"
	}
	return fmt.Sprintf("%.0f %%", percent)
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
