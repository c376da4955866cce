package plug

import (
	"slices"

	"github.com/gobackoff/backoff"
)

// OnCode returns a [backoff.Classifier] that retries exactly the errors whose
// code is among codes; of returns the code of an error. OnCode fits any kind of
// code without importing its package:
//
//	plug.OnCode(status.Code, codes.Unavailable, codes.Aborted)
//
// A client that asks for a func(error) bool takes [backoff.Policy.Retryable].
// It returns false for nil, which some clients ask about too. It returns true
// for an unknown error, as Do retries one. The errors of some clients
// (Google's, Azure's, MySQL's, Kubernetes') have no method that returns their
// code. Let the client's own function classify them:
//
//	p.Classify = backoff.RetryIf(storage.ShouldRetry)
//	bucket.Retryer(storage.WithErrorFunc(p.Retryable)) // Cloud Storage keeps its waits and attempts
//	p.Classify = backoff.RetryIf(apierrors.IsConflict)
//	retry.OnError(retry.DefaultBackoff, p.Retryable, update) // Kubernetes
//	elasticsearch.Config{RetryOnError: func(_ *http.Request, err error) bool {
//		return p.Retryable(err)
//	}}
func OnCode[C comparable](of func(error) C, codes ...C) backoff.Classifier {
	return backoff.RetryIf(func(err error) bool { return slices.Contains(codes, of(err)) })
}
