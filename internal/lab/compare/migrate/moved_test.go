package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// A form is a call site of a program: it calls the remote, and returns what the
// caller of the program sees.
type form = func(context.Context, *remote) (string, error)

// A move is a call site in the form that the program has, and in the form here,
// with what happens to both.
type move struct {
	program string
	sites   int    // how many places of the program have this form; 0 in further cases of the same form
	place   string // and what happens there
	script  []answer
	// deadline and cancel end the context of the call, by themselves or by the
	// program, which then gives errShutdown as the cause. 0 means never.
	deadline, cancel time.Duration
	limit            time.Duration // the program's own, for the start of the last attempt
	before, here     form

	was, is outcome // is may be empty: the same
	better  []reason
}

// An outcome is what is expected of a form. Times are in seconds, from the least
// to the most.
type outcome struct {
	attempts [2]float64
	gaps     [2]float64 // from the end of an attempt to the start of the next one
	after    [2]float64 // from the end of the last attempt, or from the cancellation, to the end of the call
	sees     string     // the caller
}

// A remote answers the attempts of a call in turn, the last response again and
// again.
type remote struct {
	script []answer
	began  time.Time
	tried  []attempted
}

type answer struct {
	err    error
	status int           // over HTTP
	state  string        // of what is polled; "" and "done" are the end
	after  time.Duration // what the server asks for
	took   time.Duration
}

type attempted struct{ from, to time.Duration }

// text is what the error of the program must hold.
func (a answer) text() string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.status != 0:
		return strconv.Itoa(a.status)
	}
	return a.state
}

func (r *remote) next(ctx context.Context) answer {
	a := r.script[min(len(r.tried), len(r.script)-1)]
	from := time.Since(r.began)
	if a.took > 0 {
		select {
		case <-ctx.Done():
			a = answer{err: ctx.Err()}
		case <-time.After(a.took):
		}
	}
	r.tried = append(r.tried, attempted{from, time.Since(r.began)})
	return a
}

// call is an attempt whose answer is an error or none.
func (r *remote) call(ctx context.Context) error { return r.next(ctx).err }

// state asks for the state of what is polled.
func (r *remote) state(ctx context.Context) (string, error) {
	a := r.next(ctx)
	return a.state, a.err
}

// found asks whether it is there.
func (r *remote) found(ctx context.Context) (bool, error) {
	state, err := r.state(ctx)
	return state == "done", err
}

// RoundTrip is an attempt over HTTP.
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	a := r.next(req.Context())
	if a.err != nil {
		return nil, a.err
	}
	header := http.Header{}
	if a.after > 0 {
		header.Set("Retry-After", strconv.Itoa(int(a.after.Seconds())))
	}
	return &http.Response{StatusCode: a.status, Status: strconv.Itoa(a.status), Header: header, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader(a.state))}, nil
}

// post sends a request to the remote.
func (r *remote) post(ctx context.Context, client *http.Client) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://service.test/", strings.NewReader("body"))
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

var (
	errShutdown = errors.New("shutdown")
	errRefused  = errors.New("refused")
)

// sees names what the caller of a program gets: the value, or what the error
// matches or says.
func (m move) sees(value string, err error, r *remote) string {
	if err == nil {
		return value
	}
	var all []string
	if last := r.script[min(len(r.tried), len(r.script))-1].text(); last != "" && len(r.tried) > 0 && strings.Contains(err.Error(), last) {
		all = append(all, "last failure")
	}
	for _, known := range []struct {
		name string
		err  error
	}{{"cancelled", context.Canceled}, {"cause", errShutdown}, {"deadline", context.DeadlineExceeded}, {"limit", backoff.ErrExhausted}} {
		if errors.Is(err, known.err) {
			all = append(all, known.name)
		}
	}
	if len(all) == 0 {
		return "another error"
	}
	return strings.Join(all, ", ")
}

// A seen is what a form did in many calls.
type seen struct {
	attempts, gaps, after, last span
	each                        []span // gap
	sees                        string
}

const callsOfEach = 200

func (m move) observe(t *testing.T, f form) (s seen) {
	synctest.Test(t, func(t *testing.T) {
		for i := range callsOfEach {
			m.once(t, f, &s, i)
		}
	})
	return s
}

func (m move) once(t *testing.T, f form, s *seen, call int) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r := &remote{script: m.script, began: time.Now()}
	if m.cancel > 0 {
		defer time.AfterFunc(m.cancel, func() { cancel(errShutdown) }).Stop()
	}
	if m.deadline > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, m.deadline)
		defer stop()
	}
	value, err := f(ctx, r)
	ended := time.Since(r.began)
	sees := m.sees(value, err, r)
	if call == 0 {
		s.sees = sees
	}
	require.Equal(t, s.sees, sees, "%s: in call %d: %v", m.place, call, err)
	require.NotEmpty(t, r.tried, m.place)

	final := r.tried[len(r.tried)-1]
	s.attempts.add(float64(len(r.tried)))
	s.last.add(final.from.Seconds())
	lingers := ended - final.to
	if m.cancel > 0 && ended >= m.cancel {
		lingers = ended - m.cancel
	}
	s.after.add(lingers.Seconds())
	for i := 1; i < len(r.tried); i++ {
		gap := (r.tried[i].from - r.tried[i-1].to).Seconds()
		s.gaps.add(gap)
		if i > len(s.each) {
			s.each = append(s.each, span{})
		}
		s.each[i-1].add(gap)
	}
}

// A reason says why a difference is an improvement. It explains columns of the
// table, and holds for what was seen.
type reason struct {
	text  string
	about []string
	holds func(m move, before, here seen) bool
}

var (
	noLastWait = reason{"no wait after the last attempt", []string{"after"}, func(_ move, before, here seen) bool {
		return before.after.most > 0.05 && here.after.most == 0
	}}
	saysWhy = reason{"the error also says why", []string{"sees"}, func(_ move, before, here seen) bool {
		words := strings.Split(here.sees, ", ")
		return len(words) > strings.Count(before.sees, ", ")+1 && !slices.ContainsFunc(strings.Split(before.sees, ", "),
			func(word string) bool { return !slices.Contains(words, word) })
	}}
	saysLast = reason{"the error has the last response, and says why", []string{"sees"}, func(_ move, before, here seen) bool {
		return before.sees == "another error" && strings.HasPrefix(here.sees, "last failure")
	}}
	slowIsSpaced = reason{"no gap of 0 s after a slow attempt", []string{"attempts", "gaps"}, func(_ move, before, here seen) bool {
		return before.gaps.least == 0 && here.gaps.least > 0.1
	}}
	obeys = reason{"obeys Retry-After", []string{"attempts", "gaps"}, func(m move, before, here seen) bool {
		return before.each[0].most < m.script[0].after.Seconds() && here.each[0].least >= m.script[0].after.Seconds()
	}}
	keepsLimit = reason{"the last attempt is at the limit, and not after it", []string{"attempts", "gaps"}, func(m move, before, here seen) bool {
		return before.last.least > m.limit.Seconds() && here.last.least == m.limit.Seconds() && here.last.most == here.last.least
	}}
	longRunRests = reason{"a long run starts the schedule again", []string{"gaps"}, func(_ move, before, here seen) bool {
		end := len(before.each) - 1
		return before.each[end].most > 2*before.each[0].most && here.each[end].most < 1.2*here.each[0].most
	}}
	spreads = reason{"clients that were told the same retry one by one", []string{"gaps"}, func(m move, before, here seen) bool {
		return before.each[0].most == m.script[0].after.Seconds() && here.each[0].least >= before.each[0].most
	}}
	goesAtOnce = reason{"again at once where a wait is of no use", []string{"attempts", "gaps"}, func(_ move, before, here seen) bool {
		return before.each[0].most > 0.1 && here.each[0].most == 0
	}}
	findsDone = reason{"finds what is done by then", []string{"sees"}, func(_ move, before, here seen) bool {
		return before.sees == "last failure" && here.sees == "done"
	}}
	lastLook = reason{"a last check at the limit", []string{"attempts", "gaps"}, func(m move, before, here seen) bool {
		return before.last.least < m.limit.Seconds() && here.last.least == m.limit.Seconds() && here.last.most == here.last.least
	}}
	endsWithContext = reason{"ends with its context", []string{"attempts", "gaps", "after", "sees"}, func(m move, before, here seen) bool {
		return m.cancel > 0 && before.after.most > 0.1 && here.after.most == 0
	}}
)

// TestMovedProgramsDoTheSameOrBetter writes the table of the page, or compares it. A
// row in which something differs needs a reason that holds.
func TestMovedProgramsDoTheSameOrBetter(t *testing.T) {
	lines := []string{
		"| Program | Sites | What happens | Attempts | Gaps, s | After the last, s | The caller sees | Better here |",
		"|---|---|---|---|---|---|---|---|",
	}
	sites := 0
	for _, m := range slices.Concat(alertmanager, minio, otlp, lego, vault, kept) {
		t.Run(m.program+", "+m.place, func(t *testing.T) { m.check(t) })
		lines = append(lines, m.line())
		sites += m.sites
	}
	require.Equal(t, 27, sites)
	compareTable(t, "moved", strings.Join(lines, "\n")+"\n")
}

func (m move) check(t *testing.T) {
	if m.is == (outcome{}) {
		m.is = m.was
	}
	before, here := m.observe(t, m.before), m.observe(t, m.here)
	m.was.requireIn(t, before, "before")
	m.is.requireIn(t, here, "here")

	different := map[string]bool{
		"attempts": m.was.attempts != m.is.attempts,
		"gaps":     m.was.gaps != m.is.gaps || !alike(before.each, here.each),
		"after":    m.was.after != m.is.after,
		"sees":     m.was.sees != m.is.sees,
	}
	for _, r := range m.better {
		require.True(t, r.holds(m, before, here), "%s: %+v, %+v", r.text, before, here)
		require.True(t, slices.ContainsFunc(r.about, func(column string) bool { return different[column] }), "%s explains nothing", r.text)
	}
	for column, is := range different {
		explained := slices.ContainsFunc(m.better, func(r reason) bool { return slices.Contains(r.about, column) })
		require.True(t, !is || explained, "nothing says why other %s are better: %+v, %+v", column, before, here)
	}
}

// requireIn checks that a form did what is expected of it, and used the room.
func (o outcome) requireIn(t *testing.T, s seen, name string) {
	for _, c := range []struct {
		column   string
		expected [2]float64
		got      span
	}{{"attempts", o.attempts, s.attempts}, {"gaps", o.gaps, s.gaps}, {"after", o.after, s.after}} {
		room := 0.001 + 0.6*(c.expected[1]-c.expected[0])
		require.GreaterOrEqual(t, c.got.least, c.expected[0]-0.001, "%s, %s: %+v", name, c.column, s)
		require.LessOrEqual(t, c.got.most, c.expected[1]+0.001, "%s, %s: %+v", name, c.column, s)
		if c.column == "attempts" {
			continue // few calls have the least or the most
		}
		require.LessOrEqual(t, c.got.least, c.expected[0]+room, "%s, %s: %+v", name, c.column, s)
		require.GreaterOrEqual(t, c.got.most, c.expected[1]-room, "%s, %s: %+v", name, c.column, s)
	}
	require.Equal(t, o.sees, s.sees, name)
}

// alike reports whether gaps that all calls had are spread over the same times.
func alike(a, b []span) bool {
	for i := range min(len(a), len(b)) {
		if a[i].n < callsOfEach || b[i].n < callsOfEach {
			break
		}
		room := 0.001 + 0.15*max(a[i].most-a[i].least, b[i].most-b[i].least)
		if math.Abs(a[i].least-b[i].least) > room || math.Abs(a[i].most-b[i].most) > room {
			return false
		}
	}
	return true
}

func (m move) line() string {
	is := m.is
	if is == (outcome{}) {
		is = m.was
	}
	sites, better := "", "same"
	gaps := func(o outcome) string {
		if o.attempts == exactly(1) {
			return "–"
		}
		return between(o.gaps)
	}
	if m.sites > 0 {
		sites = strconv.Itoa(m.sites)
	}
	if len(m.better) > 0 {
		texts := make([]string, len(m.better))
		for i, r := range m.better {
			texts[i] = r.text
		}
		better = strings.Join(texts, "; ")
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |", m.program, sites, m.place,
		changed(between(m.was.attempts), between(is.attempts)), changed(gaps(m.was), gaps(is)),
		changed(between(m.was.after), between(is.after)), changed(m.was.sees, is.sees), better)
}

// changed writes what was, and what is if that differs.
func changed(was, is string) string {
	if was == is {
		return was
	}
	return was + " → " + is
}

func between(x [2]float64) string {
	from, to := fmt.Sprint(x[0]), fmt.Sprint(x[1])
	if from == to {
		return from
	}
	return from + " to " + to
}

// Shorthands of the tables.

func exactly(x float64) [2]float64 { return [2]float64{x, x} }

func times(n int, a answer) []answer { return slices.Repeat([]answer{a}, n) }
