//go:build nightly

package plugtest

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"net"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
)

func TestADefinitiveAnswerOfAClientComesBackBareAfterOneAttempt(t *testing.T) {
	unauthorized := mongo.CommandError{Code: 13, Name: "Unauthorized"}
	for name, err := range map[string]error{
		"redis.Nil":          redis.Nil,
		"redis NOSCRIPT":     redis.ErrNoScript,
		"grpc NotFound":      status.Error(codes.NotFound, "no such shelf"),
		"grpc Unimplemented": status.Error(codes.Unimplemented, ""),
		"grpc denied":        status.Error(codes.PermissionDenied, "no"),
		"kafka too large":    kerr.MessageTooLarge,
		"nats stream":        nats.ErrStreamNotFound,
		"jetstream consumer": jetstream.ErrConsumerNotFound,
		"mongo no documents": mongo.ErrNoDocuments,
		"sql no rows":        sql.ErrNoRows,
		"tls":                tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
	} {
		calls := 0
		got := around(t, func(context.Context) error { calls++; return err })
		require.Equal(t, 1, calls, name)
		require.True(t, got == err, "%s: %T", name, got)
		require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(fmt.Errorf("find: %w", err)), name)
	}
	for _, err := range []error{
		unauthorized,
		mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}},
		mongo.BulkWriteException{WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 11000}}}},
	} {
		require.Equal(t, err, around(t, func(context.Context) error { return err }))
	}
}

// Redis has types for some of its answers, which only a server makes.
func TestADefinitiveAnswerOfRedisComesBackAfterOneAttempt(t *testing.T) {
	for _, answer := range []string{"WRONGTYPE Operation against a key", "NOAUTH Authentication required.", "NOPERM this user"} {
		client := redis.NewClient(&redis.Options{MaxRetries: -1, DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				for request := make([]byte, 4096); ; {
					if _, err := ours.Read(request); err != nil {
						return
					}
					ours.Write([]byte("-" + answer + "\r\n"))
				}
			}()
			return theirs, nil
		}})
		defer client.Close()
		calls := 0
		err := around(t, func(ctx context.Context) error { calls++; return client.Get(ctx, "k").Err() })
		require.ErrorContains(t, err, answer)
		require.Equal(t, 1, calls, answer)
	}
}

// What may pass is retried as before.
func TestAnAnswerOfAClientThatMayPassIsRetried(t *testing.T) {
	for _, err := range []error{
		redis.TxFailedErr, status.Error(codes.Unavailable, "NotFound"), status.Error(codes.Aborted, ""),
		kerr.NotLeaderForPartition, nats.ErrNoResponders, &nats.APIError{Code: 503}, nats.ErrTimeout,
		mongo.CommandError{Code: 91, Labels: []string{"RetryableWriteError"}}, mongo.CommandError{Code: 26},
	} {
		calls := 0
		require.Error(t, around(t, func(context.Context) error { calls++; return err }))
		require.Equal(t, 4, calls, err)
	}
}
