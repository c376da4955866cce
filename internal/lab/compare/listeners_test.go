package compare

import (
	"context"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"github.com/gobackoff/backoff"
)

// A listening circuit calls a listener when its state changes, and lets it ask
// for the state.
type listening func(listener func(ask func())) (fail func())

var listeners = map[string]listening{
	ours: func(listener func(ask func())) func() {
		var b backoff.Breaker
		b.Observer = func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventTransition {
				listener(func() { b.State() })
			}
		}
		return func() { _ = b.Do(context.Background(), failing(new(int))) }
	},
	"gobreaker": func(listener func(ask func())) func() {
		var b *gobreaker.CircuitBreaker[any]
		b = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{OnStateChange: func(string, gobreaker.State, gobreaker.State) {
			listener(func() { b.State() })
		}})
		return func() { _, _ = b.Execute(func() (any, error) { return nil, errDown }) }
	},
	"failsafe-go": func(listener func(ask func())) func() {
		var b circuitbreaker.CircuitBreaker[any]
		b = circuitbreaker.NewBuilder[any]().OnStateChanged(func(circuitbreaker.StateChangedEvent) {
			listener(func() { b.State() })
		}).Build()
		executor := failsafe.With(b)
		return func() { _ = executor.Run(func() error { return errDown }) }
	},
}

// In real time, as a call that waits for a lock cannot be told from one that
// runs in virtual time.
var askingListeners = func() map[string]observation {
	all := map[string]observation{}
	for name, l := range listeners {
		all[name] = func(*testing.T) string {
			done := make(chan struct{})
			fail := l(func(ask func()) { ask(); close(done) })
			go func() {
				for range 30 {
					fail()
				}
			}()
			select {
			case <-done:
				return "goes on"
			case <-time.After(time.Second):
				return "never returns"
			}
		}
	}
	return all
}()
