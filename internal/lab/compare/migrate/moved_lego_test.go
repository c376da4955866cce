package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	cenkalti "github.com/cenkalti/backoff/v5"

	"github.com/gobackoff/backoff"
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
		was:    outcome{attempts: [2]float64{9, 13}, gaps: [2]float64{0.1, 7.5}, sees: "last failure"},
		is:     outcome{attempts: [2]float64{10, 14}, gaps: [2]float64{0, 7.5}, sees: "last failure, limit"},
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
		program: "lego", place: "Record set, busy for ever",
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
		program: "lego", place: "Unstable API, a final answer",
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
