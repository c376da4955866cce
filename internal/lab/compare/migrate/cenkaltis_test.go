package migrate

import (
	"context"
	"errors"
	"log"
	"time"

	cenkalti5 "github.com/cenkalti/backoff/v5"
	cenkalti6 "github.com/cenkalti/backoff/v6"
)

// A cenkaltiForm is a call site of cenkalti v5 or v6, whose code is that of v7. errGone is
// permanent.
type cenkaltiForm struct {
	tries             uint
	constant, elapsed time.Duration
	notified, after30 bool
}

var (
	cenkaltiExponential = cenkaltiForm{elapsed: 2 * time.Minute}
	cenkaltiConstant    = cenkaltiForm{constant: time.Second, tries: 5}
	cenkaltiNotify      = cenkaltiForm{tries: 3, notified: true}
	cenkaltiPermanent   = cenkaltiForm{}
	cenkaltiRetryAfter  = cenkaltiForm{tries: 2, after30: true}
)

// and returns the form in v5 and in v6, and more calls.
func (f cenkaltiForm) and(more ...call) []call { return append([]call{f.in5, f.in6}, more...) }

func logWait(err error, wait time.Duration) { log.Printf("%v, again in %v", err, wait) }

func (f cenkaltiForm) in5(ctx context.Context, save operation) error {
	options := []cenkalti5.RetryOption{cenkalti5.WithMaxTries(f.tries)}
	if f.constant > 0 {
		options = append(options, cenkalti5.WithBackOff(cenkalti5.NewConstantBackOff(f.constant)))
	}
	if f.elapsed > 0 {
		options = append(options, cenkalti5.WithMaxElapsedTime(f.elapsed))
	}
	if f.notified {
		options = append(options, cenkalti5.WithNotify(logWait))
	}
	_, err := cenkalti5.Retry(ctx, func() (struct{}, error) {
		err := save(ctx)
		switch {
		case errors.Is(err, errGone):
			err = cenkalti5.Permanent(err)
		case err != nil && f.after30:
			err = cenkalti5.RetryAfter(30)
		}
		return struct{}{}, err
	}, options...)
	return err
}

func (f cenkaltiForm) in6(ctx context.Context, save operation) error {
	options := []cenkalti6.RetryOption{cenkalti6.WithMaxTries(f.tries)}
	if f.constant > 0 {
		options = append(options, cenkalti6.WithBackOff(cenkalti6.NewConstantBackOff(f.constant)))
	}
	if f.elapsed > 0 {
		options = append(options, cenkalti6.WithMaxElapsedTime(f.elapsed))
	}
	if f.notified {
		options = append(options, cenkalti6.WithNotify(logWait))
	}
	_, err := cenkalti6.Retry(ctx, func() (struct{}, error) {
		err := save(ctx)
		switch {
		case errors.Is(err, errGone):
			err = cenkalti6.Permanent(err)
		case err != nil && f.after30:
			err = cenkalti6.RetryAfter(30)
		}
		return struct{}{}, err
	}, options...)
	return err
}
