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

// A Trace is recorded traffic. The times of its elements ascend and start at 0.
type Trace []Arrivals

// Arrivals is a number of calls that begin at random times between At and
// At+For. If For is 0, all of them begin at At.
type Arrivals struct {
	At, For time.Duration
	Count   int
}

// The limits of a trace, so that a typing error does not make a simulation run
// for days.
const (
	maxCalls     = 100_000_000
	maxTraceTime = 366 * 24 * time.Hour
)

// ParseTrace reads a trace from CSV.
//
// With two columns, t and count, the calls of a line are spread over the time
// until the next line. Those of the last line are spread over as long as those
// of the line before, or over a second if there is only one line. With one
// column, each line is the time of one call.
//
// Times are seconds from any origin, or RFC 3339, and ascend. The first time is
// taken as 0. A first line that does not begin with a time is a header. Empty
// lines and lines that start with # are skipped. Any other line is refused with
// its number.
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

// A traceParser reads a trace line by line.
type traceParser struct {
	lines   *bufio.Scanner
	number  int // of the current line
	columns int // 0 before the first line
	header  bool
	first   float64 // time
	calls   int
	trace   Trace
}

// line reads a line that is neither empty nor a comment.
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

// add adds the calls of a line.
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
	case since > maxTraceTime:
		return fmt.Errorf("%v after the first line, want at most a year", since)
	case last >= 0 && since < p.trace[last].At, since < 0:
		return fmt.Errorf("time %q is before that of the line before", fields[0])
	case last >= 0 && since == p.trace[last].At && p.columns == 2:
		return fmt.Errorf("time %q is that of the line before", fields[0])
	case count > maxCalls-p.calls:
		return fmt.Errorf("more than %d calls", maxCalls)
	}
	p.calls += count
	p.trace = append(p.trace, Arrivals{At: since, Count: count})
	return nil
}

// spread sets For of each element to the time until the next one, if the trace
// has counts.
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

// parseTime reads a time as seconds.
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

// end returns the time after which the trace has no calls.
func (t Trace) end() time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1].At + t[len(t)-1].For
}

// calls returns the number of calls of the trace.
func (t Trace) calls() (sum int) {
	for _, a := range t {
		sum += a.Count
	}
	return sum
}
