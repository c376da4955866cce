// Clients that were told not to retry, or that somebody else made.
package retriesinsideoff

import (
	"context"

	"cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/go-resty/resty/v2"
	"github.com/googleapis/gax-go/v2"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"

	"github.com/gobackoff/backoff"
)

var fetching backoff.Policy

func aws(ctx context.Context) error {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRetryMaxAttempts(1))
	if err != nil {
		return err
	}
	client := s3.NewFromConfig(cfg)
	return fetching.Do(ctx, func(ctx context.Context) error {
		_, err := client.GetObject(ctx, nil)
		return err
	})
}

func azure(ctx context.Context) error {
	options := &azblob.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
	client, err := azblob.NewClient("https://example.com", options)
	if err != nil {
		return err
	}
	return fetching.Do(ctx, func(ctx context.Context) error {
		_, err := client.DeleteBlob(ctx, "a", "b")
		return err
	})
}

func gcs(ctx context.Context) error {
	client, err := storage.NewClient(ctx)
	if err != nil {
		return err
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	return fetching.Do(ctx, func(ctx context.Context) error { return client.Object("a").Delete(ctx) })
}

func secret(ctx context.Context) error {
	client, err := secretmanager.NewClient(ctx)
	if err != nil {
		return err
	}
	return fetching.Do(ctx, func(ctx context.Context) error {
		_, err := client.GetSecret(ctx, "a", gax.WithRetry(nil))
		return err
	})
}

func openAI(ctx context.Context) (string, error) {
	client := openai.NewClient(option.WithMaxRetries(0))
	return backoff.DoValue(ctx, fetching, func(ctx context.Context) (string, error) { return client.Chat.New(ctx, "hello") })
}

func retryable(ctx context.Context) error {
	client := retryablehttp.NewClient()
	client.RetryMax = 0
	return fetching.Do(ctx, func(context.Context) error {
		_, err := client.Get("https://example.com")
		return err
	})
}

func cache(ctx context.Context, options *redis.Options) error {
	client := redis.NewClient(options)
	return fetching.Do(ctx, func(ctx context.Context) error { return client.Ping(ctx).Err() })
}

func rest(ctx context.Context) error {
	client := resty.New()
	return fetching.Do(ctx, func(context.Context) error {
		_, err := client.R().Get("https://example.com")
		return err
	})
}
