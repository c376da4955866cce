package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

// A server is the service that the function calls. It gives its answers in turn,
// and the last one again and again.
type server struct {
	mu      sync.Mutex
	answers []http.HandlerFunc
}

func (s *server) script(answers []http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = answers
}

func (s *server) next() (answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer = s.answers[0]; len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return answer
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.next()(w, r) }

func ok(http.ResponseWriter, *http.Request) {}

func down(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }

func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // so that the server notices the end of the connection
	<-r.Context().Done()
}

// run invokes a function four times, as Lambda does, with a second for each.
func run(ctx context.Context, out io.Writer) error {
	s := new(server)
	listening := httptest.NewServer(s)
	defer listening.Close()
	log := journal.New(out)
	handler := lambda.NewHandler(newFunction(log, listening.URL).handle)
	for _, invocation := range []struct {
		what     string
		answers  []http.HandlerFunc
		messages []string
	}{
		{"the service fails once", []http.HandlerFunc{down, ok}, []string{"a", "b"}},
		{"the service hangs", []http.HandlerFunc{ok, hang}, []string{"c", "d", "e"}},
		{"the service is down", []http.HandlerFunc{ok, down}, []string{"f", "g", "h"}},
		{"the service is well, but the circuit is still open", []http.HandlerFunc{ok}, []string{"g", "h"}},
	} {
		log.Say("-- invocation with %v: %s", invocation.messages, invocation.what)
		s.script(invocation.answers)
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
