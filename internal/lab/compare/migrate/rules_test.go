package migrate

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	avast "github.com/avast/retry-go/v4"
	cenkalti "github.com/cenkalti/backoff/v5"
	dskit "github.com/grafana/dskit/backoff"
	jpillora "github.com/jpillora/backoff"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
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

var down = times(1, answer{err: errDown})

// failing are calls that fail for ever, and end with an error that says why.
func failing(before, here form, attempts, least, most float64) move {
	was := outcome{attempts: exactly(attempts), gaps: [2]float64{least, most}, sees: "last failure"}
	is := was
	is.sees = "last failure, limit"
	return move{script: down, before: before, here: here, was: was, is: is}
}

// answered are the same calls with another script.
func (m move) answered(script ...answer) move {
	m.script = script
	return m
}

// ended are the same calls with a deadline after two and a half waits.
func (m move) ended() move {
	m.deadline = 5 * D / 2
	m.was = outcome{attempts: exactly(3), gaps: exactly(1), after: exactly(0.5), sees: "deadline"}
	m.is = outcome{attempts: exactly(3), gaps: exactly(1), sees: "last failure, deadline"}
	return m
}

// stopped are the same calls, cancelled after two and a half waits.
func (m move) stopped() move {
	m.cancel = 5 * D / 2
	m.was.attempts, m.is.attempts, m.is.sees = exactly(3), exactly(3), "last failure, cancelled"
	return m
}

// same are calls that do the same before and here.
func same(before, here form, script []answer, attempts, least, most float64, sees string) move {
	return move{script: script, before: before, here: here, was: outcome{attempts: exactly(attempts), gaps: [2]float64{least, most}, sees: sees}}
}

var (
	finalErrors = []answer{{err: x509.UnknownAuthorityError{}}, {err: noSuchName}, {err: context.Canceled}, {err: context.DeadlineExceeded}, {err: &backoffhttp.StatusError{Code: 404}}, {}}

	tenth    = append(times(9, answer{err: errDown}), answer{})
	thenBusy = []answer{{err: errDown}, {err: errBusy}}
	thenDown = []answer{{err: errBusy}, {err: errDown}}
	byTurns  = []answer{{err: errBusy}, {err: errDown}, {err: errBusy}, {}}
	hurdles  = []answer{{status: S}, {status: 503}, {status: S}, {status: 404}}
	slowDown = answer{err: errDown, took: 200 * time.Millisecond}
	asksWait = []answer{{err: errDown, after: 30 * time.Second}, {}}
	found    = append(times(3, answer{state: "missing"}), answer{state: "done"})
)

// Calls that more than one rule needs.
var (
	tries     = cenkaltis(cenkalti.WithMaxTries(N))
	hereTries = here(backoff.Policy{MaxAttempts: N, Schedule: cenkaltisDefault.Schedule, Jitter: cenkaltisDefault.Jitter})
	shortened = here(backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter, MaxElapsed: E, ShortenLastWait: true})
)

// spread are calls whose server asks for 30 s.
func spread(before, here form) move {
	return move{script: asksWait, before: before, here: here,
		was: outcome{attempts: exactly(2), gaps: exactly(30), sees: "done"}, is: outcome{attempts: exactly(2), gaps: [2]float64{30, 33}, sees: "done"}}
}

// rules are those of the documents, by their ids.
var rules = map[string]move{
	// All libraries.
	"M30": same(beforeCall, here(with(cenkaltisDefault, everyError)), finalErrors, 6, 0.25, 3.8, "done"),
	"M28": same(looking(tries, beforeCompared), looking(hereTries, hereCompared), times(1, answer{err: X}), N, 0.25, 1.69, "busy"),
	// cenkalti/backoff.
	"M1": {script: down, deadline: 5 * time.Minute, before: beforeCall, here: hereCall,
		was: outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, after: [2]float64{0, 90}, sees: "deadline"},
		is:  outcome{attempts: [2]float64{14, 20}, gaps: [2]float64{0.25, 90}, sees: "last failure, deadline"}},
	"M2 M3 M62": failing(cenkaltis(cenkalti.WithBackOff(cenkalti.NewConstantBackOff(D)), cenkalti.WithMaxElapsedTime(E)),
		here(backoff.Policy{MaxAttempts: -1, MaxElapsed: E, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}), 11, 1, 1),
	"M4":  failing(tries, hereTries, N, 0.25, 1.69),
	"M31": same(cenkaltis(cenkalti.WithBackOff(cenkalti.NewConstantBackOff(D)), cenkalti.WithMaxTries(0)), here(constant), tenth, 10, 1, 1, "done"),
	"M5": failing(
		cenkaltis(cenkalti.WithMaxTries(N), cenkalti.WithBackOff(&cenkalti.ExponentialBackOff{InitialInterval: A, MaxInterval: B, Multiplier: F, RandomizationFactor: R})),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: A, Max: B, Multiplier: F}, Jitter: backoff.UniformJitter(1-R, 1+R)}), N, 0.9, 3.3),
	"M6": failing(cenkaltis(cenkalti.WithMaxTries(N), cenkalti.WithBackOff(&cenkalti.ZeroBackOff{})),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Constant(0)}), N, 0, 0),
	"M7 M32": failing(before4, hereRetries, N+1, 1, 1),
	"M33":    failing(before4, hereRetries, 3, 1, 1).ended(),
	"M88":    failing(beforeNotify4, hereNotify4, N+1, 1, 1),
	"M89":    failing(beforeData4, hereData, N+1, 1, 1),
	"M8":     same(cenkaltiOf(cenkaltiPermanentError), hereMarked(with(cenkaltisDefault, everyError), herePermanentError), down, 1, 0, 0, "last failure"),
	"M9":     failing(beforeNotify, hereHook, 3, 0.25, 1.13),
	"M11":    spread(cenkaltiOf(cenkaltiRetryAfterError), hereMarked(cenkaltisDefault, hereRetryAfterError)),
	// avast/retry-go.
	"M12 M13": failing(avasts(avast.Attempts(N), avast.Delay(D)),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: added(100 * time.Millisecond)}), N, 1, 4.1),
	"M34": same(avasts(avast.Attempts(0), avast.Delay(D), avast.DelayType(avast.FixedDelay)), here(constant), tenth, 10, 1, 1, "done"),
	"M35": same(avasts(avast.UntilSucceeded(), avast.Delay(D), avast.DelayType(avast.FixedDelay)), here(constant), tenth, 10, 1, 1, "done"),
	"M14": failing(avasts(avast.Delay(D), avast.DelayType(avast.FixedDelay)),
		here(backoff.Policy{MaxAttempts: 10, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}), 10, 1, 1),
	"M15": failing(avasts(avast.Attempts(N), avast.Delay(D), avast.MaxDelay(B)),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: avastsDefault.Jitter, MaxDelay: B}), N, 1, 3),
	"M16":     same(beforeAvastRetryIf, hereAvastRetryIf, []answer{{err: errBusy}, {err: errBusy}, {err: errDown}}, 3, 0.1, 0.3, "last failure"),
	"M17":     same(beforeAvastFinal, hereMarked(constant, herePermanentError), down, 1, 0, 0, "last failure"),
	"M37 M38": failing(avasts(avast.Delay(D), avast.DelayType(avast.FixedDelay), avast.LastErrorOnly(true)), here(constant), 3, 1, 1).ended(),
	"M68":     same(avasts(avastDelay()), here(delayedByClass()), byTurns, 4, 1, 10.5, "done"),
	"M61":     failing(avasts(avast.Delay(D), avast.DelayType(avast.FixedDelay), avast.AttemptsForError(N, X)), here(with(constant, limitedByClass)), N, 1, 1).answered(answer{err: X}),
	"M39":     failing(beforeAvastHook, hereAvastHook, 3, 0.1, 0.3),
	// sethvargo/go-retry.
	"M46": same(beforeSethvargoMark, hereSethvargoMark, thenDown, 2, 1, 1, "last failure"),
	"M40 M41 M42 M43": failing(sethvargos(sethvargoCapped), here(backoff.Policy{MaxAttempts: N + 1,
		Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: backoff.UniformJitter(1-P/100.0, 1+P/100.0), MaxDelay: B}), N+1, 0.8, 3),
	"M44 M45": failing(sethvargos(sethvargoTime), shortened, 10, 0.7, 1).answered(slowDown),
	"M71": failing(sethvargos(sethvargoFull),
		here(backoff.Policy{MaxAttempts: N + 1, Schedule: backoff.Exponential{Initial: D, Max: -1}, Jitter: backoff.FullJitter}), N+1, 0, 8),
	"M73": failing(sethvargos(sethvargoFibonaccis), here(sethvargosFibonacci()), N+1, 1, 5),
	// failsafe-go.
	"M47 M50 M51": failing(failsafes(failsafeBuilder().WithMaxAttempts(N).WithBackoff(A, B).WithJitterFactor(R)),
		here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: A, Max: B}, Jitter: backoff.UniformJitter(1-R, 1+R)}), N, 0.9, 3.3),
	"M75":     same(failsafes(failsafeUnlimited().WithDelay(D)), here(unlimited()), tenth, 10, 1, 1, "done"),
	"M48 M49": failing(failsafes(failsafeBuilder().WithMaxRetries(N).WithDelay(D)), hereRetries, N+1, 1, 1),
	"M69":     same(failsafes(failsafeDelayFunc().WithMaxAttempts(10)), here(delayedByClass()), byTurns, 4, 1, 10.5, "done"),
	"M63":     same(beforeClientOfTransport, hereClientOfTransport, []answer{{status: 503}, {took: time.Minute}}, 2, 1, 1, "deadline"),
	"M52":     failing(failsafes(failsafeBuilder().WithMaxAttempts(-1).WithDelay(D).WithMaxDuration(E)), shortened, 10, 0.7, 1).answered(slowDown),
	"M53":     same(failsafes(failsafeBuilder().WithDelay(D).AbortOnErrors(X)), here(with(constant, abortOnX)), thenBusy, 2, 1, 1, "last failure"),
	"M54":     same(failsafes(failsafeBuilder().WithDelay(D).HandleErrors(X)), here(with(constant, handleX)), thenDown, 2, 1, 1, "last failure"),
	// go-retryablehttp.
	"M22": {script: times(1, answer{took: time.Minute}), before: retryables(shortClient), here: hereTimeout,
		was: outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline"},
		is:  outcome{attempts: exactly(3), gaps: exactly(1), sees: "deadline, limit"}},
	"M18 M19 M21 M29": same(retryables(retryMax),
		hereHTTP(backoff.Policy{MaxAttempts: N + 1, Schedule: backoff.Exponential{Initial: A, Max: B}, Jitter: backoff.NoJitter, Idempotency: backoff.Idempotent}),
		times(1, answer{status: 500}), N+1, 1, 3, "500"),
	"M55": same(retryables(retriesOne), hereHTTP(with(constant, checked)), hurdles, 4, 1, 1, "404"),
	"M56": same(retryables(retriesOne), hereKeptClient, hurdles, 4, 1, 1, "404"),
	// Loops and polls.
	"M23": {script: down, before: beforeSleep, here: here(backoff.Policy{MaxAttempts: N, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}),
		was: outcome{attempts: exactly(N), gaps: exactly(1), after: exactly(1), sees: "last failure"},
		is:  outcome{attempts: exactly(N), gaps: exactly(1), sees: "last failure, limit"}},
	"M64": {script: times(1, answer{took: time.Minute}), before: beforeClientInALoop, here: hereClientInALoop,
		was: outcome{attempts: exactly(N), gaps: exactly(1), after: exactly(1), sees: "deadline"},
		is:  outcome{attempts: exactly(N), gaps: exactly(1), sees: "deadline, limit"}},
	"M24": same(beforeSleepyPoll, herePoll(backoff.Policy{MaxAttempts: 1, MaxElapsed: -1, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}), found, 4, 1, 1, "done"),
	"M66": failing(beforeStopGiven, hereStopGiven, 3, 1, 1).stopped(),
	"M74": failing(loopOf(ownLoop), loopOf(hereLoop), 3, 1, 1).ended(),
	// dskit and jpillora.
	"M76 M77 M78 M79 M80 M81": {script: down,
		before: dskits(dskit.Config{MinBackoff: A, MaxBackoff: B4, MaxRetries: N}),
		here:   hereRanged(backoff.Policy{MaxAttempts: N, Schedule: backoff.Exponential{Initial: 2 * A, Max: B4}, Jitter: backoff.EqualJitter}),
		was:    outcome{attempts: exactly(N), gaps: [2]float64{1, 4}, sees: "another error"},
		is:     outcome{attempts: exactly(N), gaps: [2]float64{1, 4}, sees: "last failure, limit"}},
	"M82 M83 M85": same(jpilloras(&jpillora.Backoff{Min: A, Max: B, Factor: F}),
		hereSleeping(backoff.Policy{MaxAttempts: -1, Schedule: backoff.Exponential{Initial: A, Max: B, Multiplier: F}, Jitter: backoff.NoJitter}), tenth, 10, 1, 3, "done"),
	"M84": same(jpilloras(&jpillora.Backoff{Min: A, Max: B, Jitter: true}), hereSleeping(jpilloraJitter()), tenth, 10, 1, 3, "done"),
}

var ruleRow = regexp.MustCompile("(?m)^\\| (M\\d+) \\| `(.+?)` \\| (?:`(.+?)`|–) \\|")

// TestTheRulesHold runs what each rule of the documents replaces, and what it makes of it.
func TestTheRulesHold(t *testing.T) {
	code := oneLine(written(t, "*loops*_test.go", "rules_*test.go"))
	rows := map[string][]string{}
	for _, row := range ruleRow.FindAllStringSubmatch(written(t, pages...), -1) {
		require.NotContains(t, rows, row[1], "it is in the documents twice")
		rows[row[1]] = row
	}
	for ids, m := range rules {
		t.Run(ids, func(t *testing.T) {
			for _, id := range strings.Fields(ids) {
				require.Contains(t, rows, id)
				require.Contains(t, code, oneLine(rows[id][2]), "no test runs it")
				require.Contains(t, code, oneLine(strings.ReplaceAll(rows[id][3], `\|`, "|")), "no test runs it")
				delete(rows, id)
			}
			m.check(t)
		})
	}
	require.Empty(t, rows, "no test runs them")
}

// oneLine writes code without line breaks, and without the commas before them.
func oneLine(code string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(code), " "), ", }", " }")
}
