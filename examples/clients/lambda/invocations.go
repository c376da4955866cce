package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

// run invokes a function four times, as Lambda does, with a second for each.
func run(ctx context.Context, out io.Writer) error {
	ok, down := faulty.Status(http.StatusOK), faulty.Status(http.StatusServiceUnavailable)
	server := faulty.Start(ok)
	defer server.Close()
	log := journal.New(out)
	handler := lambda.NewHandler(newFunction(log, server.URL).handle)
	for _, invocation := range []struct {
		what     string
		answers  []faulty.Step
		messages []string
	}{
		{"the service fails once", []faulty.Step{down, ok}, []string{"a", "b"}},
		{"the service hangs", []faulty.Step{ok, faulty.Hang}, []string{"c", "d", "e"}},
		{"the service is down", []faulty.Step{ok, down}, []string{"f", "g", "h"}},
		{"the service is well, but the circuit is still open", []faulty.Step{ok}, []string{"g", "h"}},
	} {
		log.Say("-- invocation with %v: %s", invocation.messages, invocation.what)
		server.SetScript(invocation.answers...)
		answer, err := invoke(ctx, handler, invocation.messages...)
		if err != nil {
			return err
		}
		log.Say("%s", answer)
	}
	log.Sum()
	return nil
}

// invoke makes one invocation.
func invoke(ctx context.Context, handler lambda.Handler, messages ...string) ([]byte, error) {
	var batch events.SQSEvent
	for _, id := range messages {
		batch.Records = append(batch.Records, events.SQSMessage{MessageId: id, Body: "an order"})
	}
	payload, err := json.Marshal(batch)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := handler.Invoke(ctx, payload)
	if ctx.Err() != nil {
		return nil, errors.New("the function was killed by Lambda")
	}
	return answer, err
}
