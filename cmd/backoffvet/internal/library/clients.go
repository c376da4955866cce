package library

import "strings"

// A client is a library whose calls retry by themselves.
type client struct {
	name  string
	paths []string // of its modules, without versions
	// makes are the functions that make what retries, so that a package without them may have been
	// given one that does not. None means that the calls themselves are loops.
	makes []string
	// limits are the fields and options that limit the retries, with the greatest number that
	// switches them off.
	limits map[string]int64
	// hooks are the fields and options by which the retries are off, or follow a policy.
	hooks []string
	// known says that a policy takes what the client gave up on for permanent.
	known  bool
	advice string
}

var clients = []client{
	{
		name:   "the AWS SDK",
		paths:  []string{"github.com/aws/aws-sdk-go-v2"},
		makes:  []string{"LoadDefaultConfig"},
		limits: map[string]int64{"RetryMaxAttempts": 1, "WithRetryMaxAttempts": 1},
		hooks:  []string{"Retryer", "WithRetryer", "NopRetryer"},
		known:  true,
		advice: "Give it the policy, config.WithRetryer(plug.AWS(policy)), and call it without one",
	},
	{
		name:   "the AWS SDK",
		paths:  []string{"github.com/aws/aws-sdk-go"},
		makes:  []string{"NewSession", "NewSessionWithOptions", "New"},
		limits: map[string]int64{"MaxRetries": 0, "WithMaxRetries": 0},
		hooks:  []string{"Retryer", "NoOpRetryer"},
		advice: "Set aws.Config.MaxRetries to aws.Int(0), or call it without a policy",
	},
	{
		name:   "the Azure SDK",
		paths:  []string{"github.com/Azure/azure-sdk-for-go/sdk"},
		limits: map[string]int64{"MaxRetries": -1},
		makes:  []string{"NewClient", "NewServiceClient", "NewClientFromConnectionString"},
		hooks:  []string{"ShouldRetry"},
		advice: "Set policy.RetryOptions.MaxRetries to -1, or give it plug.ShouldRetry(policy) and call it without a policy",
	},
	{
		name:   "Cloud Storage",
		paths:  []string{"cloud.google.com/go/storage"},
		makes:  []string{"NewClient", "NewGRPCClient"},
		limits: map[string]int64{"WithMaxAttempts": 1},
		hooks:  []string{"RetryNever"},
		known:  true,
		advice: "Switch that off, client.SetRetry(storage.WithPolicy(storage.RetryNever)), or call it without a policy",
	},
	{
		name: "Google's client",
		paths: []string{"cloud.google.com/go/bigquery", "cloud.google.com/go/firestore", "cloud.google.com/go/kms",
			"cloud.google.com/go/secretmanager"},
		makes:  []string{"NewClient", "NewKeyManagementClient"},
		hooks:  []string{"CallOptions", "WithRetry"},
		advice: "Give the call gax.WithRetry(func() gax.Retryer { return plug.Gax(policy.Start(ctx).Tried) }) and make it without a policy",
	},
	{
		name:   "the SDK",
		paths:  []string{"github.com/openai/openai-go", "github.com/anthropics/anthropic-sdk-go"},
		makes:  []string{"NewClient"},
		limits: map[string]int64{"WithMaxRetries": 0},
		hooks:  []string{"WithMiddleware", "WithHTTPClient"},
		advice: "Switch that off, option.WithMaxRetries(0)",
	},
	{
		name:   "go-retryablehttp",
		paths:  []string{"github.com/hashicorp/go-retryablehttp"},
		makes:  []string{"NewClient", "Get", "Head", "Post", "PostForm"},
		limits: map[string]int64{"RetryMax": 0},
		hooks:  []string{"CheckRetry"},
		known:  true,
		advice: "Use an http.Client instead, or give it plug.RetryableHTTP(policy) and call it without a policy",
	},
	{
		name:   "Vault's client",
		paths:  []string{"github.com/hashicorp/vault/api"},
		makes:  []string{"NewClient"},
		limits: map[string]int64{"MaxRetries": 0, "SetMaxRetries": 0},
		hooks:  []string{"CheckRetry", "SetCheckRetry"},
		advice: "Set MaxRetries to 0, or call it without a policy",
	},
	{
		name:   "go-redis",
		paths:  []string{"github.com/redis/go-redis", "github.com/go-redis/redis"},
		makes:  []string{"NewClient", "NewClusterClient", "NewFailoverClient", "NewUniversalClient"},
		limits: map[string]int64{"MaxRetries": -1},
		advice: "Set MaxRetries to -1, or call it without a policy",
	},
	{
		name:   "resty",
		paths:  []string{"github.com/go-resty/resty", "resty.dev"},
		makes:  []string{"SetRetryCount"}, // it retries only if told to
		limits: map[string]int64{"SetRetryCount": 0, "RetryCount": 0},
		advice: "Leave SetRetryCount out, or call it without a policy",
	},
	{name: "a retry loop of another library", paths: []string{"github.com/avast/retry-go", "github.com/cenkalti/backoff",
		"github.com/sethvargo/go-retry"}, advice: "Leave one of the two out"},
}

// clientOf returns the client to whose modules a package belongs, or nil.
func clientOf(path string) *client {
	for i, c := range clients {
		for _, module := range c.paths {
			if path == module || strings.HasPrefix(path, module+"/") {
				return &clients[i]
			}
		}
	}
	return nil
}
