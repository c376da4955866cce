package migrate

import (
	"context"
	"errors"
	"io"
	"net"
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
	script []answer
	// deadline and cancel end the context of the call, by themselves or by the
	// program, which then gives errShutdown as the cause. 0 means never.
	deadline, cancel time.Duration
	before, here     form

	was, is outcome // is may be empty: the same
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
	noSuchName  = &net.DNSError{Err: "no such host", Name: "_acme-challenge.example.com", IsNotFound: true}
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
	attempts, gaps, after span
	sees                  string
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
	require.Equal(t, s.sees, sees, "in call %d: %v", call, err)
	require.NotEmpty(t, r.tried)

	final := r.tried[len(r.tried)-1]
	s.attempts.add(float64(len(r.tried)))
	lingers := ended - final.to
	if m.cancel > 0 && ended >= m.cancel {
		lingers = ended - m.cancel
	}
	s.after.add(lingers.Seconds())
	for i := 1; i < len(r.tried); i++ {
		s.gaps.add((r.tried[i].from - r.tried[i-1].to).Seconds())
	}
}

func (m move) check(t *testing.T) {
	if m.is == (outcome{}) {
		m.is = m.was
	}
	before, here := m.observe(t, m.before), m.observe(t, m.here)
	m.was.requireIn(t, before, "before")
	m.is.requireIn(t, here, "here")
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

// Shorthands of the tables.

func exactly(x float64) [2]float64 { return [2]float64{x, x} }

func times(n int, a answer) []answer { return slices.Repeat([]answer{a}, n) }

// done is what the caller sees of a call.
func done(err error) (string, error) {
	if err != nil {
		return "", err
	}
	return "done", nil
}

// statusOf is what the caller sees of a call over HTTP.
func statusOf(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	return strconv.Itoa(resp.StatusCode), nil
}
