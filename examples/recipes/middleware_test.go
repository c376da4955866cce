package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

// A Message and a HandlerFunc have the shapes of Watermill's.
type Message struct{ ctx context.Context }

func (m *Message) Context() context.Context       { return m.ctx }
func (m *Message) SetContext(ctx context.Context) { m.ctx = ctx }

type HandlerFunc func(*Message) ([]*Message, error)

func Retry(policy backoff.Policy) func(HandlerFunc) HandlerFunc {
	return func(next HandlerFunc) HandlerFunc {
		return func(m *Message) ([]*Message, error) {
			whole := m.Context()
			defer m.SetContext(whole)
			return backoff.DoValue(whole, policy, func(ctx context.Context) ([]*Message, error) {
				m.SetContext(ctx) // it ends with the attempt
				out, err := next(m)
				if errors.As(err, new(*backoff.Error)) || errors.Is(err, backoff.ErrOpen) { // the handler gave up
					err = backoff.OfClass(err, backoff.ClassRetryable)
				}
				return out, err
			})
		}
	}
}

// The handler calls a service, which is down for as long as the policy of the
// call is patient. The middleware handles the message again. It waits for an open
// circuit, too. A message that cannot be read is handled once.
func Example_middleware() {
	retry := Retry(backoff.Policy{Name: "handle", AttemptTimeout: time.Minute, Schedule: backoff.Constant(10 * time.Millisecond)})
	message := &Message{context.Background()}

	calling := backoff.Policy{Name: "call", MaxAttempts: 2, Schedule: backoff.Constant(time.Millisecond)}
	breaker := &backoff.Breaker{OpenFor: backoff.Constant(50 * time.Millisecond)}
	calls, handled := 0, 0
	service := func(context.Context) error {
		if calls++; calls <= 5 {
			return errors.New("down")
		}
		return nil
	}
	handle := func(m *Message) ([]*Message, error) {
		handled++
		return []*Message{m}, breaker.Do(m.Context(), calling.Wrap(service))
	}
	unreadable := func(*Message) ([]*Message, error) {
		handled++
		return nil, backoff.Permanent(errors.New("unreadable"))
	}

	out, err := retry(handle)(message)
	fmt.Println("handled", handled, "times:", len(out), "message,", err, message.Context().Err())

	breaker.Trip()
	_, err = retry(handle)(message)
	fmt.Println("with the circuit open:", err)

	handled = 0
	_, err = retry(unreadable)(message)
	fmt.Println("handled", handled, "times:", err)
	// Output:
	// handled 3 times: 1 message, <nil> <nil>
	// with the circuit open: <nil>
	// handled 1 times: unreadable
}
