// Command lambda is an AWS Lambda function for a queue. Watch four invocations:
// a failure is retried; then the time runs out, and the rest of the batch goes
// back to the queue; then the circuit opens, and the next invocation finds it
// open.
//
// The invocations are made in the process. In a real function main ends with
// lambda.Start(f.handle).
//
//	go run -C examples/clients ./lambda
package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

// margin is the time to answer before Lambda would kill the function.
const margin = 300 * time.Millisecond

// A function passes messages on to a service. It is made once in a process, so
// what its breaker has learned outlives the invocations.
type function struct {
	policy  backoff.Policy
	breaker *backoff.Breaker
	url     string
}

func newFunction(log *journal.Journal, url string) *function {
	policy := backoff.Policy{Name: "orders", Schedule: backoff.Constant(20 * time.Millisecond), Observer: log.Observe, Classify: backoffhttp.Classify}
	breaker := &backoff.Breaker{Name: "orders", Observer: log.Observe, Classify: backoffhttp.Classify,
		ConsecutiveFailures: 3, ConsecutiveSpan: -1} // soon, for this demonstration
	return &function{policy, breaker, url}
}

// handle passes a batch on. It returns the messages that SQS should deliver again.
func (f *function) handle(ctx context.Context, batch events.SQSEvent) (r events.SQSEventResponse, err error) {
	if deadline, ok := ctx.Deadline(); ok { // Lambda sets it
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	for _, message := range batch.Records {
		send := func(ctx context.Context) error { return f.send(ctx, message) }
		err := f.policy.Do(ctx, f.breaker.Wrap(send)) // the breaker counts attempts
		if err != nil {
			r.BatchItemFailures = append(r.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: message.MessageId})
		}
	}
	return r, nil
}

// send is one attempt.
func (f *function) send(ctx context.Context, message events.SQSMessage) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, f.url+"/"+message.MessageId, strings.NewReader(message.Body))
	if err != nil {
		return backoff.Permanent(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return backoffhttp.Check(resp)
}

func main() { journal.Main(run) }
