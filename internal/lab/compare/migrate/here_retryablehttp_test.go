package migrate

import (
	"errors"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

func hereRetryableClient() *http.Client {
	client := backoffhttp.Client(backoff.Policy{
		MaxAttempts: 4,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: 5 * time.Second},
	})
	return client
}

func hereRetryableCheck() *http.Client {
	client := backoffhttp.Client(backoff.Policy{Classify: func(err error) backoff.Class {
		if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == http.StatusNotFound {
			return backoff.ClassRetryable
		}
		return backoff.ClassUnknown // as usual
	}})
	return client
}

func hereRetryablePost(req *http.Request) *http.Request {
	req = req.WithContext(backoffhttp.WithRetry(req.Context(), func(p *backoff.Policy) {
		p.Idempotency = backoff.AlwaysRetry
	}))
	return req
}
