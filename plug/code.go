package plug

import (
	"reflect"
	"slices"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
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
//
// OnCode(nil) is nil.
func OnCode[C comparable](of func(error) C, codes ...C) backoff.Classifier {
	if of == nil {
		return nil
	}
	return backoff.RetryIf(func(err error) bool { return slices.Contains(codes, of(err)) })
}

// PermanentErrors returns a [backoff.Classifier] that finds an error permanent
// ([backoff.ClassPermanent]) if it matches one of errs as errors.Is says. All others
// it leaves to [backoff.DefaultClassifier]. It is for the errors of clients that
// are only a text, of which that classifier knows a few:
//
//	plug.PermanentErrors(nats.ErrMaxPayload, nats.ErrAuthorization, mongo.ErrNilDocument)
//
// An error in errs that is nil, or of a type without ==, is ignored.
func PermanentErrors(errs ...error) backoff.Classifier {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool {
		return err == nil || !reflect.ValueOf(err).Comparable()
	})
	return func(err error) backoff.Class {
		if slices.ContainsFunc(errs, func(known error) bool { return errtree.Is(err, known) }) {
			return backoff.ClassPermanent
		}
		return backoff.ClassUnknown
	}
}
