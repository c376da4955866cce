package failfastjob

import (
	"context"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

var (
	policy = backoff.Policy{Name: "send"}
	orders = &guard.Service{Name: "orders"}
)

func endless(ctx context.Context, send func(context.Context) error) {
	for {
		_ = orders.Do(guard.WithFailFast(ctx), policy, send) // want `this job does not wait`
	}
}

func consumes(ctx context.Context, messages <-chan string, send func(context.Context) error) {
	for range messages {
		_ = orders.Do(guard.WithFailFast(ctx), policy, send) // want `this job does not wait`
	}
}

func ticks(ctx context.Context, send func(context.Context) error) {
	for range time.Tick(time.Minute) {
		_ = orders.Do(guard.WithFailFast(ctx), policy, send) // want `this job does not wait`
	}
}

func background(send func(context.Context) error) error {
	return orders.Do(guard.WithFailFast(context.Background()), policy, send) // want `this job does not wait`
}

func handles(w http.ResponseWriter, r *http.Request, send func(context.Context) error) {
	if orders.Do(guard.WithFailFast(r.Context()), policy, send) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func eachServer(ctx context.Context, servers []string, send func(context.Context) error) {
	for range servers {
		_ = orders.Do(guard.WithFailFast(ctx), policy, send)
	}
}
