package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	cenkalti "github.com/cenkalti/backoff/v5"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/poll"
)

// The ACME client lego, v5.4.1: cenkalti's Retry at 15 places, most of which wait until
// something is done, and a loop by hand for the propagation of DNS records.

var lego = []move{
	{
		program: "lego", sites: 1, place: "ACME request, the nonce is refused once",
		script: []answer{{err: errBadNonce}, {}}, before: retriedNonce, here: acmeRequest,
		was:    outcome{attempts: exactly(2), gaps: [2]float64{0.1, 0.3}, sees: "done"},
		is:     outcome{attempts: exactly(2), sees: "done"},
		better: []reason{goesAtOnce},
	},
	{
		program: "lego", place: "ACME request, the nonce is refused again and again",
		script: times(1, answer{err: errBadNonce}), before: retriedNonce, here: acmeRequest,
		was:    outcome{attempts: [2]float64{9, 15}, gaps: [2]float64{0.1, 7.5}, sees: "last failure"},
		is:     outcome{attempts: [2]float64{10, 16}, gaps: [2]float64{0, 7.5}, sees: "last failure, limit"},
		better: []reason{goesAtOnce, saysWhy},
	},
	{
		program: "lego", place: "ACME request, another problem",
		script: times(1, answer{err: errRefused}), before: retriedNonce, here: acmeRequest,
		was: outcome{attempts: exactly(1), sees: "last failure"},
	},
	{
		program: "lego", sites: 1, place: "Record set, busy three times",
		script: append(times(3, answer{err: errBusy}), answer{}), before: retriedRecordSet, here: recordSet,
		was: outcome{attempts: exactly(4), gaps: exactly(2), sees: "done"},
	},
	{
		program: "lego", place: "Record set, busy forever",
		script: times(1, answer{err: errBusy}), before: retriedRecordSet, here: recordSet,
		was:    outcome{attempts: exactly(31), gaps: exactly(2), sees: "last failure"},
		is:     outcome{attempts: exactly(31), gaps: exactly(2), sees: "last failure, limit"},
		better: []reason{saysWhy},
	},
	{
		program: "lego", sites: 1, place: "Unstable API, the connection ends twice",
		script: append(times(2, answer{err: io.EOF}), answer{}), before: retriedEOF, here: unstable,
		was: outcome{attempts: exactly(3), gaps: [2]float64{0.5, 2.25}, sees: "done"},
	},
	{
		program: "lego", place: "Unstable API, a final response",
		script: times(1, answer{err: errRefused}), before: retriedEOF, here: unstable,
		was: outcome{attempts: exactly(1), sees: "last failure"},
	},
	{
		program: "lego", place: "Unstable API, a deadline of 2 s",
		script: times(1, answer{err: io.EOF}), deadline: 2 * time.Second, before: retriedEOF, here: unstable,
		was:    outcome{attempts: [2]float64{2, 3}, gaps: [2]float64{0.5, 1.5}, after: [2]float64{0, 1.5}, sees: "deadline"},
		is:     outcome{attempts: [2]float64{2, 3}, gaps: [2]float64{0.5, 1.5}, sees: "last failure, deadline"},
		better: []reason{noLastWait, saysWhy},
	},
	{
		program: "lego", sites: 1, place: "Authorization, pending three times",
		script: append(times(3, answer{state: "pending"}), answer{state: "valid"}), before: retriedLook(authorization), here: look(authorization),
		was: outcome{attempts: exactly(4), gaps: [2]float64{2.5, 16.88}, sees: "done"},
	},
	{
		program: "lego", place: "Authorization, pending forever",
		script: times(1, answer{state: "pending"}), limit: 500 * time.Second, before: retriedLook(authorization), here: look(authorization),
		was:    outcome{attempts: [2]float64{11, 24}, gaps: [2]float64{2.5, 75}, sees: "last failure"},
		is:     outcome{attempts: [2]float64{12, 25}, gaps: [2]float64{0, 75}, sees: "last failure, limit"},
		better: []reason{lastLook, saysWhy},
	},
	{
		program: "lego", place: "Authorization, pending with Retry-After: 20",
		script: []answer{{state: "pending", after: 20 * time.Second}, {state: "valid"}}, before: retriedLook(authorization), here: look(authorization),
		was:    outcome{attempts: exactly(2), gaps: [2]float64{2.5, 7.5}, sees: "done"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{20, 22}, sees: "done"},
		better: []reason{obeys},
	},
	{
		program: "lego", place: "Authorization, invalid",
		script: []answer{{state: "pending"}, {err: errRefused}}, before: retriedLook(authorization), here: look(authorization),
		was: outcome{attempts: exactly(2), gaps: [2]float64{2.5, 7.5}, sees: "last failure"},
	},
	{
		program: "lego", sites: 1, place: "Zone that was edited, not active three times",
		script: append(times(3, answer{state: "blocked"}), answer{state: "active"}), before: retriedLook(editedZone), here: look(editedZone),
		was: outcome{attempts: exactly(4), gaps: [2]float64{1.5, 10.13}, sees: "done"},
	},
	{
		program: "lego", sites: len(changes), place: "Change at a DNS provider, done at the third look",
		script: append(times(2, answer{state: "pending"}), answer{state: "done"}), before: retriedLook(changes[0]), here: look(changes[0]),
		was: outcome{attempts: exactly(3), gaps: exactly(2), sees: "done"},
	},
	{
		program: "lego", place: "Change at a DNS provider, done 0.5 s before the limit",
		script: append(times(21, answer{state: "pending", took: 900 * time.Millisecond}), answer{state: "done"}), limit: time.Minute,
		before: retriedLook(changes[0]), here: look(changes[0]),
		was:    outcome{attempts: exactly(21), gaps: exactly(2), sees: "last failure"},
		is:     outcome{attempts: exactly(22), gaps: [2]float64{1.1, 2}, sees: "done"},
		better: []reason{lastLook, findsDone},
	},
	{
		program: "lego", place: "Change at a DNS provider, a look fails",
		script: []answer{{state: "pending"}, {err: errDown}, {state: "done"}}, before: retriedLook(changes[0]), here: look(changes[0]),
		was: outcome{attempts: exactly(3), gaps: exactly(2), sees: "done"},
	},
	{
		program: "lego", place: "Change at two DNS providers, a look fails",
		script: []answer{{state: "pending"}, {err: errDown}}, before: retriedLook(changes[8]), here: look(changes[8]),
		was: outcome{attempts: exactly(2), gaps: exactly(2), sees: "last failure"},
	},
	{
		program: "lego", sites: 1, place: "Client with a flood time, told 5 s by a refusal",
		script: []answer{{err: errFlood, after: 5 * time.Second}, {}}, before: sleepingClient(1), here: heldOffClient(1),
		was:    outcome{attempts: exactly(2), gaps: exactly(5), sees: "done"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{5, 5.5}, sees: "done"},
		better: []reason{spreads},
	},
	{
		program: "lego", place: "Client with a flood time, told 5 s by the response to the call before",
		script: []answer{{after: 5 * time.Second}, {}}, before: sleepingClient(2), here: heldOffClient(2),
		was:    outcome{attempts: exactly(2), gaps: exactly(5), sees: "done"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{5, 5.5}, sees: "done"},
		better: []reason{spreads},
	},
	{
		program: "lego", place: "Client with a flood time, the program shuts down after 1 s",
		script: []answer{{err: errFlood, after: 5 * time.Second}, {err: context.Canceled}}, cancel: time.Second, before: sleepingClient(1), here: heldOffClient(1),
		was:    outcome{attempts: exactly(2), gaps: exactly(5), after: exactly(4), sees: "last failure, cancelled"},
		is:     outcome{attempts: exactly(1), sees: "last failure, cancelled, cause"},
		better: []reason{endsWithContext, saysWhy},
	},
	{
		program: "lego", sites: 1, place: "DNS record, found at the third look",
		script: []answer{{err: noSuchName}, {state: "missing"}, {state: "found"}}, before: handmadePropagation, here: propagation,
		was: outcome{attempts: exactly(3), gaps: exactly(2), sees: "done"},
	},
	{
		program: "lego", place: "DNS record, never found",
		script: times(1, answer{err: noSuchName, took: 300 * time.Millisecond}), before: handmadePropagation, here: propagation,
		was:    outcome{attempts: exactly(27), gaps: exactly(2), after: exactly(2), sees: "last failure"},
		is:     outcome{attempts: exactly(27), gaps: exactly(2), sees: "last failure, limit"},
		better: []reason{noLastWait, saysWhy},
	},
	{
		program: "lego", place: "DNS record, the program shuts down after 3 s",
		script: times(1, answer{err: noSuchName, took: 300 * time.Millisecond}), cancel: 3 * time.Second, before: handmadePropagation, here: propagation,
		was:    outcome{attempts: exactly(30), gaps: exactly(2), after: exactly(57.6), sees: "cancelled"},
		is:     outcome{attempts: exactly(2), gaps: exactly(2), sees: "last failure, cancelled, cause"},
		better: []reason{endsWithContext, saysWhy},
	},
}

var errFlood = errors.New("flood_protection")

// sleepingClient makes calls with a client that sleeps under a lock before each
// request, until the time that the service has named.
func sleepingClient(calls int) form {
	return func(ctx context.Context, r *remote) (string, error) {
		var mu sync.Mutex
		var next time.Time
		return repeated(calls, func() (string, error) {
			return untilDone(ctx, func() error {
				mu.Lock()
				time.Sleep(time.Until(next))
				mu.Unlock()
				a := r.next(ctx)
				mu.Lock()
				next = time.Now().Add(a.after)
				mu.Unlock()
				if a.err != nil && !errors.Is(a.err, errFlood) {
					return cenkalti.Permanent(a.err)
				}
				return a.err
			}, cenkalti.WithBackOff(&cenkalti.ZeroBackOff{}), cenkalti.WithMaxElapsedTime(3*time.Minute))
		})
	}
}

func heldOffClient(calls int) form {
	return func(ctx context.Context, r *remote) (string, error) {
		flood := new(pace.HoldOff)
		policy := backoff.Policy{
			MaxAttempts: -1,
			MaxElapsed:  3 * time.Minute,
			Schedule:    backoff.Constant(0),
			Classify:    backoff.RetryIf(func(err error) bool { return errors.Is(err, errFlood) }),
			Budget:      flood,
		}
		return repeated(calls, func() (string, error) {
			return done(policy.Do(ctx, func(ctx context.Context) error {
				a := r.next(ctx)
				if a.err == nil {
					flood.Hold(a.after)
				}
				return backoff.RetryAfter(a.err, a.after)
			}))
		})
	}
}

// repeated makes calls until one fails.
func repeated(calls int, call func() (string, error)) (value string, err error) {
	for range calls {
		if value, err = call(); err != nil {
			break
		}
	}
	return value, err
}

// A wanted is what the program waits for.
type wanted struct {
	state        string // that ends the wait
	first, limit time.Duration
	growth       float64       // of the waits, which are then jittered; 0 means that all are the first
	most         time.Duration // of the growing waits
	strict       bool          // a look that fails ends the wait
}

var (
	authorization = wanted{"valid", 5 * time.Second, 500 * time.Second, 1.5, 50 * time.Second, true}
	editedZone    = wanted{"active", 3 * time.Second, 300 * time.Second, 1.5, 30 * time.Second, true}
	// changes are those at Huawei Cloud, Variomedia, NIFCLOUD, VinylDNS, Route 53,
	// ClouDNS, Google Cloud, Anexia and Hetzner.
	changes = []wanted{
		{"done", 2 * time.Second, time.Minute, 0, 0, false},
		{"done", 2 * time.Second, time.Minute, 0, 0, false},
		{"done", 4 * time.Second, 2 * time.Minute, 0, 0, false},
		{"done", 4 * time.Second, 2 * time.Minute, 0, 0, false},
		{"done", 4 * time.Second, 2 * time.Minute, 0, 0, false},
		{"done", 10 * time.Second, 3 * time.Minute, 0, 0, false},
		{"done", 3 * time.Second, 30 * time.Second, 0, 0, false},
		{"done", 5 * time.Second, 5 * time.Minute, 0, 0, true},
		{"done", 2 * time.Second, time.Minute, 0, 0, true},
	}
)

func (w wanted) waits() cenkalti.BackOff {
	if w.growth == 0 {
		return cenkalti.NewConstantBackOff(w.first)
	}
	b := cenkalti.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = w.first, w.most
	return b
}

func (w wanted) policy() backoff.Policy {
	policy := backoff.Policy{MaxAttempts: -1, MaxElapsed: w.limit, Schedule: backoff.Constant(w.first), Jitter: backoff.NoJitter}
	if w.growth > 0 {
		policy.Schedule = backoff.Exponential{Initial: w.first, Multiplier: w.growth, Max: w.most}
		policy.Jitter = backoff.UniformJitter(0.5, 1.5)
	}
	return policy
}

func retriedLook(w wanted) form {
	return func(ctx context.Context, r *remote) (string, error) {
		return untilDone(ctx, func() error {
			state, err := r.state(ctx)
			switch {
			case err != nil && w.strict:
				return cenkalti.Permanent(err)
			case err != nil:
				return fmt.Errorf("look: %w", err)
			case state != w.state:
				return fmt.Errorf("status %s", state)
			}
			return nil
		}, cenkalti.WithBackOff(w.waits()), cenkalti.WithMaxElapsedTime(w.limit))
	}
}

func look(w wanted) form {
	return func(ctx context.Context, r *remote) (string, error) {
		return done(poll.Until(ctx, w.policy(), func(ctx context.Context) (bool, error) {
			a := r.next(ctx)
			switch {
			case a.err != nil && w.strict:
				return false, backoff.Permanent(a.err)
			case a.err != nil:
				return false, fmt.Errorf("look: %w", a.err)
			case a.state != w.state:
				err := fmt.Errorf("status %s: %w", a.state, poll.ErrNotYet)
				if a.after > 0 {
					err = backoff.RetryAfter(err, a.after)
				}
				return false, err
			}
			return true, nil
		}))
	}
}

var noSuchName = &net.DNSError{Err: "no such host", Name: "_acme-challenge.example.com", IsNotFound: true}

func handmadePropagation(ctx context.Context, r *remote) (string, error) {
	over := time.After(time.Minute)
	var last error
	for {
		select {
		case <-over:
			return "", fmt.Errorf("out of time: %w", last)
		default:
		}
		state, err := r.state(ctx)
		if err == nil && state == "found" {
			return "done", nil
		}
		if err != nil {
			last = err
		}
		time.Sleep(2 * time.Second)
	}
}

func propagation(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{MaxAttempts: -1, MaxElapsed: time.Minute, Schedule: backoff.Constant(2 * time.Second), Jitter: backoff.NoJitter}
	return done(poll.Until(ctx, policy, func(ctx context.Context) (bool, error) {
		state, err := r.state(ctx)
		return state == "found", err
	}))
}

// All providers are polled as the first one is, but for the times.
func TestAllProvidersArePolledAlike(t *testing.T) {
	for _, w := range changes {
		looks := int(w.limit/w.first) + 1
		expected := outcome{attempts: exactly(float64(looks)), gaps: exactly(w.first.Seconds()), sees: "last failure"}
		ended := expected
		ended.sees += ", limit"
		move{script: times(1, answer{state: "pending"}), before: retriedLook(w), here: look(w), was: expected, is: ended, better: []reason{saysWhy}}.check(t)
	}
}

// untilDone is a function of the program.
func untilDone(ctx context.Context, op func() error, options ...cenkalti.RetryOption) (string, error) {
	return cenkalti.Retry(ctx, func() (string, error) { return "done", op() }, options...)
}

// done is what the caller sees of a call here.
func done(err error) (string, error) {
	if err != nil {
		return "", err
	}
	return "done", nil
}

var errBadNonce = errors.New("urn:ietf:params:acme:error:badNonce")

func retriedNonce(ctx context.Context, r *remote) (string, error) {
	waits := cenkalti.NewExponentialBackOff()
	waits.InitialInterval = 200 * time.Millisecond
	waits.MaxInterval = 5 * time.Second
	return untilDone(ctx, func() error {
		err := r.call(ctx)
		if err != nil && !errors.Is(err, errBadNonce) {
			return cenkalti.Permanent(err)
		}
		return err
	}, cenkalti.WithBackOff(waits), cenkalti.WithMaxElapsedTime(20*time.Second))
}

func acmeRequest(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  20 * time.Second,
		Schedule:    backoff.Exponential{Initial: 200 * time.Millisecond, Multiplier: 1.5, Max: 5 * time.Second},
		Jitter:      backoff.UniformJitter(0.5, 1.5),
	}
	return done(policy.Do(ctx, func(ctx context.Context) error {
		err := r.call(ctx)
		if errors.Is(err, errBadNonce) {
			return backoff.AtOnce(err)
		}
		return backoff.Permanent(err)
	}))
}

func retriedRecordSet(ctx context.Context, r *remote) (string, error) {
	return untilDone(ctx, func() error {
		if err := r.call(ctx); err != nil {
			return fmt.Errorf("create record set: %w", err)
		}
		return nil
	}, cenkalti.WithBackOff(cenkalti.NewConstantBackOff(2*time.Second)), cenkalti.WithMaxElapsedTime(time.Minute))
}

func recordSet(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{MaxAttempts: -1, MaxElapsed: time.Minute, Schedule: backoff.Constant(2 * time.Second), Jitter: backoff.NoJitter}
	return done(policy.Do(ctx, func(ctx context.Context) error {
		if err := r.call(ctx); err != nil {
			return fmt.Errorf("create record set: %w", err)
		}
		return nil
	}))
}

func retriedEOF(ctx context.Context, r *remote) (string, error) {
	waits := cenkalti.NewExponentialBackOff()
	waits.InitialInterval = time.Second
	return untilDone(ctx, func() error {
		err := r.call(ctx)
		if err != nil && !errors.Is(err, io.EOF) {
			return cenkalti.Permanent(err)
		}
		return err
	}, cenkalti.WithBackOff(waits))
}

func unstable(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  15 * time.Minute,
		Schedule:    backoff.Exponential{Initial: time.Second, Multiplier: 1.5, Max: time.Minute},
		Jitter:      backoff.UniformJitter(0.5, 1.5),
		Classify:    backoff.RetryIf(func(err error) bool { return errors.Is(err, io.EOF) }),
	}
	return done(policy.Do(ctx, r.call))
}
