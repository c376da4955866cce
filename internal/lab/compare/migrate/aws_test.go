package migrate

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func awsWaiter(ctx context.Context, client s3.HeadBucketAPIClient, input *s3.HeadBucketInput) error {
	waiter := s3.NewBucketExistsWaiter(client, func(o *s3.BucketExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 2*time.Second, 30*time.Second
	})
	err := waiter.Wait(ctx, input, 2*time.Minute)
	return err
}
