package guard_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

func ExampleService() {
	orders := &guard.Service{Name: "orders"} // one for all calls to it
	policy := backoff.Policy{Name: "publish"}
	_, breaker := orders.Parts()
	breaker.Trip() // as if calls had failed

	ctx := guard.WithFailFast(context.Background()) // or the call waits until the service is back
	err := orders.Do(ctx, policy, func(context.Context) error {
		fmt.Println("not reached")
		return nil
	})
	fmt.Println(errors.Is(err, backoff.ErrOpen), err)
	// Output: true backoff: orders: circuit open
}

// Who has time waits for a service that restarts.
func ExampleService_wait() {
	search := &guard.Service{Name: "search"}
	policy := backoff.Policy{Schedule: backoff.Constant(0)}
	back := time.Now().Add(500 * time.Millisecond)
	find := func(context.Context) error {
		if time.Now().Before(back) {
			return errors.New("connection refused")
		}
		return nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("job:", search.Do(ctx, policy, find))

	back = time.Now().Add(time.Hour)
	ctx, cancel = context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	err := search.Do(ctx, policy, find)
	fmt.Println("no time:", errors.Is(err, context.DeadlineExceeded), backoff.Cause(err))
	// Output:
	// job: <nil>
	// no time: true connection refused
}

// Customers share the service and its breaker. One who sends too much slows nobody else.
func ExampleService_Tenant() {
	orders := &guard.Service{Name: "orders"}
	policy := backoff.Policy{MaxAttempts: 1}
	greedy, modest := orders.Tenant("greedy"), orders.Tenant("modest")

	_ = greedy.Do(context.Background(), policy, func(context.Context) error {
		return backoff.OfClass(errors.New("too many requests"), backoff.ClassThrottled)
	})
	fmt.Println(greedy.State().PerSecond > 0, modest.State().PerSecond > 0)
	// Output: true false
}

func ExampleServices() {
	services := guard.Services{New: func(host string) *guard.Service {
		return &guard.Service{Breaker: &backoff.Breaker{Name: host, OpenFor: backoff.Constant(time.Minute)}}
	}}
	_, breaker := services.For("a.example").Parts()
	breaker.Trip()

	for _, host := range []string{"a.example", "b.example"} {
		err := services.For(host).Do(guard.WithFailFast(context.Background()), backoff.Policy{}, func(context.Context) error { return nil })
		fmt.Println(host, services.For(host).State().Breaker.State, errors.Is(err, backoff.ErrOpen))
	}
	// Output:
	// a.example open true
	// b.example closed false
}

// A Client is the Service around one policy, for calls that are alike.
func ExampleClient() {
	users := (&guard.Service{Name: "users"}).With(backoff.Policy{Name: "load", AttemptTimeout: time.Second})

	name, err := backoff.DoValue(context.Background(), users, func(context.Context) (string, error) { return "Ada", nil })
	fmt.Println(name, err)
	// Output: Ada <nil>
}

func ExampleState() {
	orders := new(guard.Service)
	for n := range 5 {
		_ = orders.Do(context.Background(), backoff.Policy{MaxAttempts: 1}, func(context.Context) error {
			if n == 0 {
				return errors.New("connection reset")
			}
			return nil
		})
	}
	state := orders.State()
	fmt.Println(state.Breaker.State, state.Breaker.Successes, state.Breaker.Failures, state.Waiting)
	// Output: closed 4 1 0
}

// A client with a loop of its own says which failures are no fault of the service.
func ExampleTurn() {
	api, policy := &guard.Service{Name: "api"}, backoff.Policy{}
	status := []int{http.StatusServiceUnavailable, http.StatusUnauthorized}

	var turn guard.Turn
	err := api.Around(context.Background(), &policy, &turn, func(ctx context.Context, waited *backoff.Policy) error {
		r := cmp.Or(waited, &policy).Start(ctx)
		ctx, ok := r.Begin(0)
		for ok {
			code := status[0]
			status = status[1:]
			turn.NoFault = code == http.StatusUnauthorized
			turn.Own = turn.NoFault
			err := errors.New(http.StatusText(code))
			if turn.NoFault {
				err = backoff.Permanent(err)
			}
			var wait time.Duration
			if wait, ok = r.Retry(err); ok {
				ctx, ok = r.Begin(wait)
			}
		}
		return r.Err()
	})
	fmt.Println(err, api.State().Breaker.Failures)
	// Output: Unauthorized 0
}
