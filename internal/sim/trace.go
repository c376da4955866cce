package sim

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Trace is recorded traffic: calls that begin at a time, or spread evenly over the time
// up to the next element. Times ascend and start at 0.
type Trace []Arrivals

// Arrivals is a number of calls that begin at random times within For from At, or, where
// that is 0, all at once.
type Arrivals struct {
	At, For time.Duration
	Count   int
}

// most bounds what a trace may ask for, so that a slip of the keyboard does not run for days.
const (
	mostCalls = 100_000_000
	mostTime  = 366 * 24 * time.Hour
)

// ParseTrace reads a trace from CSV. With two columns, t and count, so many calls are
// spread over the time until the next line, and those of the last line over as long as
// those before it (a second, if it is alone). With one column, every line is the time of a
// call. Times are seconds from any origin, or RFC 3339, and ascend; the first is taken as
// 0. A first line that is no numbers is a header. Empty lines, and those that start with #, are
// skipped. Anything else is refused with the number of its line.
func ParseTrace(r io.Reader) (Trace, error) {
	p := traceParser{lines: bufio.NewScanner(r)}
	for p.lines.Scan() {
		p.number++
		text := strings.TrimSpace(strings.TrimPrefix(p.lines.Text(), "\ufeff"))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if err := p.line(text); err != nil {
			return nil, fmt.Errorf("trace: line %d: %w", p.number, err)
		}
	}
	if err := p.lines.Err(); err != nil {
		return nil, fmt.Errorf("trace: line %d: %w", p.number+1, err)
	}
	if p.calls == 0 {
		return nil, fmt.Errorf("trace: no calls in %d lines", p.number)
	}
	return p.spread(), nil
}

type traceParser struct {
	lines   *bufio.Scanner
	number  int
	columns int // 0 before the first line
	header  bool
	first   float64
	calls   int
	trace   Trace
}

func (p *traceParser) line(text string) error {
	fields := strings.Split(text, ",")
	if len(fields) > 2 {
		return fmt.Errorf("%d columns, want t or t,count", len(fields))
	}
	at, err := parseTime(fields[0])
	if err != nil && p.columns == 0 && !p.header {
		p.header = true
		return nil
	}
	if err != nil {
		return err
	}
	if p.columns == 0 {
		p.columns, p.first = len(fields), at
	}
	if len(fields) != p.columns {
		return fmt.Errorf("%d columns, and %d before", len(fields), p.columns)
	}
	return p.add(at, fields)
}

func (p *traceParser) add(at float64, fields []string) error {
	count := 1
	if p.columns == 2 {
		n, err := strconv.Atoi(strings.TrimSpace(fields[1]))
		if err != nil || n < 0 {
			return fmt.Errorf("count is %q, want a whole number, 0 or more", fields[1])
		}
		count = n
	}
	since := seconds(at - p.first)
	switch last := len(p.trace) - 1; {
	case since > mostTime:
		return fmt.Errorf("%v after the first line, want at most a year", since)
	case last >= 0 && since < p.trace[last].At, since < 0:
		return fmt.Errorf("time %q is before that of the line before", fields[0])
	case last >= 0 && since == p.trace[last].At && p.columns == 2:
		return fmt.Errorf("time %q is that of the line before", fields[0])
	case count > mostCalls-p.calls:
		return fmt.Errorf("more than %d calls", mostCalls)
	}
	p.calls += count
	p.trace = append(p.trace, Arrivals{At: since, Count: count})
	return nil
}

// spread gives each line of counts the time until the next.
func (p *traceParser) spread() Trace {
	if p.columns == 1 {
		return p.trace
	}
	length := time.Second
	for i := range p.trace {
		if i+1 < len(p.trace) {
			length = p.trace[i+1].At - p.trace[i].At
		}
		p.trace[i].For = length
	}
	return p.trace
}

func parseTime(field string) (float64, error) {
	field = strings.TrimSpace(field)
	if s, err := strconv.ParseFloat(field, 64); err == nil && !math.IsNaN(s) && math.Abs(s) < 1e12 {
		return s, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, field); err == nil {
		return float64(t.UnixNano()) / 1e9, nil
	}
	return 0, fmt.Errorf("time is %q, want seconds or RFC 3339", field)
}

// end returns when the last call of the trace has begun.
func (t Trace) end() time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1].At + t[len(t)-1].For
}

// calls returns the number of calls.
func (t Trace) calls() (sum int) {
	for _, a := range t {
		sum += a.Count
	}
	return sum
}
