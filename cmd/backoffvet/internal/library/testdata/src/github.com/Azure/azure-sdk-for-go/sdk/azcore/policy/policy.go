package policy

type RetryOptions struct{ MaxRetries int32 }
