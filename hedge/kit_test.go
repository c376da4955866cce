package hedge_test

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff"
)

var errBoom = errors.New("boom")

// answered is an error that comes with a response.
type answered struct{ id string }

func (answered) Error() string { return "503" }
func (a answered) ResponseHeader() map[string][]string {
	return map[string][]string{"X-Amzn-Requestid": {a.id}}
}

// refusesHedges is a budget that grants first attempts only.
func refusesHedges() *hedgeBudget {
	return &hedgeBudget{grant: func(a backoff.Attempt) (time.Duration, bool) { return 0, a.First() }}
}

// ifNotSent allows to send again what was not sent.
type ifNotSent struct{}

func (ifNotSent) Repeatable(_ context.Context, c backoff.Class) bool {
	return c == backoff.ClassNotSent
}

// badRequest is an error that a classifier finds permanent.
type badRequest struct{}

func (badRequest) Error() string       { return "status 400" }
func (badRequest) HTTPStatusCode() int { return 400 }
