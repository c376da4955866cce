package main

import (
	"errors"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/gobackoff/backoff"
)

// answer is an error of a server.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestClassesOfAnswers(t *testing.T) {
	for err, want := range map[error]backoff.Class{
		answer("LOADING Redis is loading the dataset in memory"):        backoff.ClassRetryable,
		answer("READONLY You can't write against a read only replica."): backoff.ClassRetryable,
		answer("MOVED 3999 127.0.0.1:6379"):                             backoff.ClassRetryable,
		answer("CLUSTERDOWN Hash slot not served"):                      backoff.ClassRetryable,
		answer("ERR max number of clients reached"):                     backoff.ClassThrottled,
		answer("WRONGTYPE Operation against a key"):                     backoff.ClassPermanent,
		answer("NOAUTH Authentication required."):                       backoff.ClassPermanent,
		redis.Nil:               backoff.ClassPermanent,
		io.ErrUnexpectedEOF:     backoff.ClassUnknown,
		errors.New("no answer"): backoff.ClassUnknown,
	} {
		if got := classify(err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}
