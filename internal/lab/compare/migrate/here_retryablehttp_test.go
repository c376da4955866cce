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
		Jitter:      backoff.NoJitter, // as there; without it, the waits are random up to these
	})
	return client
}

func hereRetryableSafe() *http.Client {
	client := backoffhttp.Client(backoff.Policy{Idempotency: backoff.Idempotent})
	return client
}

func hereRetryableWhole() *http.Client {
	client := backoffhttp.WrapClient(&http.Client{Timeout: 10 * time.Second, CheckRedirect: noRedirects}, vaultPolicy())
	return client
}

func vaultPolicy() backoff.Policy {
	return backoff.Policy{
		Idempotency: backoff.Idempotent,
		MaxAttempts: 3,
		Schedule:    backoff.Linear{Initial: time.Second, Step: time.Second},
		Jitter:      backoff.NoJitter,
		Classify: func(err error) backoff.Class {
			if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == http.StatusPreconditionFailed {
				return backoff.ClassRetryable
			}
			return backoff.ClassUnknown // as usual
		},
	}
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func hereRetryablePost(req *http.Request) *http.Request {
	req = req.WithContext(backoffhttp.WithRetry(req.Context(), func(p *backoff.Policy) {
		p.Idempotency = backoff.Idempotent
	}))
	return req
}
