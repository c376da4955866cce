package retriesinside

import (
	"context"

	"cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	cenkalti "github.com/cenkalti/backoff/v5"
	"github.com/go-resty/resty/v2"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/poll"
)

var policy = backoff.Policy{Name: "fetch"}

func aws(ctx context.Context) error {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("eu-west-1"))
	if err != nil {
		return err
	}
	client := s3.NewFromConfig(cfg)
	return policy.Do(ctx, func(ctx context.Context) error {
		_, err := client.GetObject(ctx, nil) // want `the AWS SDK retries this by itself, and the policy around it takes what it gave up on for final`
		return err
	})
}

func azure(ctx context.Context) error {
	client, err := azblob.NewClient("https://example.com", nil)
	if err != nil {
		return err
	}
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		if _, err := client.DeleteBlob(ctx, "a", "b"); err == nil { // want `the Azure SDK retries this by itself, so its attempts multiply .*MaxRetries to -1`
			return nil
		}
	}
	return r.Err()
}

func gcs(ctx context.Context) error {
	client, err := storage.NewClient(ctx)
	if err != nil {
		return err
	}
	object := client.Object("a")
	return policy.Do(ctx, func(ctx context.Context) error {
		return object.Delete(ctx) // want `Cloud Storage retries this by itself`
	})
}

func secret(ctx context.Context) (string, error) {
	client, err := secretmanager.NewClient(ctx)
	if err != nil {
		return "", err
	}
	return backoff.DoValue(ctx, policy, func(ctx context.Context) (string, error) {
		return client.GetSecret(ctx, "a") // want `Google's client retries this by itself`
	})
}

func openAI(ctx context.Context) (string, error) {
	client := openai.NewClient(option.WithAPIKey("a"))
	return backoff.DoValue(ctx, policy, func(ctx context.Context) (string, error) {
		return client.Chat.New(ctx, "hello") // want `the SDK retries this by itself`
	})
}

func retryable(ctx context.Context) error {
	client := retryablehttp.NewClient()
	client.RetryMax = 3
	return policy.Do(ctx, func(context.Context) error {
		resp, err := client.Get("https://example.com") // want `go-retryablehttp retries this by itself`
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
}

type cache struct{ client *redis.Client }

func newCache() *cache {
	return &cache{redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: 5})}
}

func (c *cache) ping(ctx context.Context) error {
	return c.client.Ping(ctx).Err() // want `go-redis retries this by itself`
}

func (c *cache) wait(ctx context.Context) error { return policy.Do(ctx, c.ping) }

func rest(ctx context.Context) error {
	client := resty.New().SetRetryCount(3)
	return policy.Do(ctx, func(context.Context) error {
		_, err := client.R().Get("https://example.com") // want `resty retries this by itself`
		return err
	})
}

func loop(ctx context.Context) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		_, err := cenkalti.Retry(ctx, func() (int, error) { return 0, cenkalti.Permanent(nil) }) // want `a retry loop of another library retries this by itself`
		return err
	})
}

// Those below are right.

func polls(ctx context.Context, c *cache) error {
	return poll.Until(ctx, policy, func(ctx context.Context) (bool, error) {
		err := c.client.Ping(ctx).Err()
		return err == nil, nil
	})
}

func breaks(ctx context.Context, b *backoff.Breaker, c *cache) error {
	return b.Do(ctx, c.ping)
}

func once(ctx context.Context, c *cache) error {
	return backoff.Policy{MaxAttempts: 1, AttemptTimeout: 1e9}.Do(ctx, func(ctx context.Context) error {
		return c.client.Ping(ctx).Err()
	})
}

// What is said of one client says nothing of another.
func twoClients(ctx context.Context) error {
	off := retryablehttp.NewClient()
	off.RetryMax = 0
	on := retryablehttp.NewClient()
	plain := resty.New()
	return policy.Do(ctx, func(ctx context.Context) error {
		if _, err := off.Get("https://example.com"); err == nil {
			return nil
		}
		if _, err := plain.R().Get("https://example.com"); err == nil {
			return nil
		}
		_, err := on.Get("https://example.com") // want `go-retryablehttp retries this by itself`
		return err
	})
}
