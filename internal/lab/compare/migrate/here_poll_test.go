package migrate

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/poll"
)

func herePollTimeout(ctx context.Context, isReady condition) error {
	readiness := backoff.Policy{
		Name:        "readiness",
		Schedule:    backoff.Constant(10 * time.Second),
		Jitter:      backoff.NoJitter,
		MaxElapsed:  55 * time.Second,
		MaxAttempts: 1, // failed looks
	}
	err := poll.Until(ctx, readiness, isReady)
	return err
}

func herePollCancel(ctx context.Context, isReady condition) error {
	readiness := backoff.Policy{
		Name:        "readiness",
		Schedule:    backoff.Constant(10 * time.Second),
		Jitter:      backoff.NoJitter,
		MaxElapsed:  -1, // until ctx ends
		MaxAttempts: 1,
	}
	err := poll.Until(ctx, readiness, isReady)
	return err
}

func herePollSteps(ctx context.Context, isReady condition) error {
	readiness := backoff.Policy{
		Name:        "readiness",
		Schedule:    backoff.Exponential{Initial: time.Second, Max: -1},
		Jitter:      backoff.NoJitter,
		MaxElapsed:  15 * time.Second, // 1 + 2 + 4 + 8
		MaxAttempts: 1,
	}
	err := poll.Until(ctx, readiness, isReady)
	return err
}

func herePollBucket(ctx context.Context, client s3.HeadBucketAPIClient, input *s3.HeadBucketInput) error {
	bucket := backoff.Policy{
		Name:        "bucket",
		Schedule:    backoff.Exponential{Initial: 2 * time.Second, Max: 30 * time.Second},
		MaxElapsed:  2 * time.Minute,
		MaxAttempts: 1, // the client retries by itself
	}
	err := poll.Until(ctx, bucket, func(ctx context.Context) (exists bool, err error) {
		_, err = client.HeadBucket(ctx, input)
		if _, missing := errors.AsType[*types.NotFound](err); missing {
			return false, nil
		}
		return err == nil, err
	})
	return err
}
