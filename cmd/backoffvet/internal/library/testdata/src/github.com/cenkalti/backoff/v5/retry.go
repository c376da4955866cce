package backoff

import "context"

func Retry[T any](ctx context.Context, op func() (T, error)) (T, error) { return op() }

func Permanent(err error) error { return err }
