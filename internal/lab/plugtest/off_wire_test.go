//go:build nightly

package plugtest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/googleapis/gax-go/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
)

// The clients of docs/clients.md that do not speak HTTP. Each makes a call,
// with its own retries switched off as there or not, and returns how many
// attempts it made.
var wireClients = map[string]func(t *testing.T, off bool) (attempts int, err error){
	"go-redis": func(t *testing.T, off bool) (attempts int, err error) {
		opts := &redis.Options{}
		if off {
			opts = &redis.Options{MaxRetries: -1, DialerRetries: 1}
		}
		opts.Dialer = func(context.Context, string, string) (net.Conn, error) { attempts++; return nil, errDown }
		client := redis.NewClient(opts)
		defer client.Close()
		err = client.Get(t.Context(), "k").Err()
		return attempts, err
	},
	"gRPC": func(t *testing.T, off bool) (attempts int, err error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var calls atomic.Int64
		server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			calls.Add(1)
			return status.Error(codes.Unavailable, "down")
		}))
		go server.Serve(l)
		defer server.Stop()
		dial := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}],
			"retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`)}
		if off {
			dial = append(dial, grpc.WithDisableRetry())
		}
		conn, err := grpc.NewClient(l.Addr().String(), dial...)
		require.NoError(t, err)
		defer conn.Close()
		err = conn.Invoke(t.Context(), "/s/m", &pb.Empty{}, &pb.Empty{})
		return int(calls.Load()), err
	},
	"gax": func(t *testing.T, off bool) (attempts int, err error) {
		options := []gax.CallOption{gax.WithRetry(func() gax.Retryer { // as a generated client has it
			return gax.OnCodes([]codes.Code{codes.Unavailable}, gax.Backoff{Initial: time.Millisecond})
		})}
		if off {
			options = append(options, gax.WithRetry(nil))
		}
		err = gax.Invoke(t.Context(), func(context.Context, gax.CallSettings) error {
			if attempts++; attempts == 3 {
				return nil
			}
			return status.Error(codes.Unavailable, "down")
		}, options...)
		return attempts, err
	},
	"MongoDB": func(t *testing.T, off bool) (attempts int, err error) {
		finds := make(chan struct{}, 10)
		opts := options.Client().ApplyURI("mongodb://mongo.test/?directConnection=true").
			SetServerAPIOptions(options.ServerAPI(options.ServerAPIVersion1)).SetDialer(mongoServer(finds))
		if off {
			opts.SetRetryReads(false).SetRetryWrites(false).SetMaxAdaptiveRetries(0)
		}
		client, err := mongo.Connect(opts)
		require.NoError(t, err)
		defer client.Disconnect(context.Background())
		err = client.Database("d").Collection("c").FindOne(t.Context(), bson.D{}).Err()
		return len(finds), err
	},
}

// mongoServer is the dialer of a server that is about to shut down.
type mongoServer chan struct{}

func (finds mongoServer) DialContext(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		for header := make([]byte, 16); ; {
			if _, err := io.ReadFull(ours, header); err != nil {
				return
			}
			body := make([]byte, binary.LittleEndian.Uint32(header)-16)
			io.ReadFull(ours, body)
			reply := bson.D{{Key: "ok", Value: 1}, {Key: "isWritablePrimary", Value: true}, {Key: "minWireVersion", Value: 0}, {Key: "maxWireVersion", Value: 21},
				{Key: "maxBsonObjectSize", Value: 1 << 24}, {Key: "maxMessageSizeBytes", Value: 1 << 25}, {Key: "maxWriteBatchSize", Value: 1000}, {Key: "logicalSessionTimeoutMinutes", Value: 30}}
			if bson.Raw(body[5:]).Lookup("find").Type != 0 {
				finds <- struct{}{}
				reply = bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 91}, {Key: "codeName", Value: "ShutdownInProgress"}, {Key: "errmsg", Value: "down"}}
			}
			ours.Write(mongoMessage(header[4:8], reply))
		}
	}()
	return theirs, nil
}

// mongoMessage is an OP_MSG in answer to a request.
func mongoMessage(request []byte, reply bson.D) []byte {
	document, _ := bson.Marshal(reply)
	m := binary.LittleEndian.AppendUint32(nil, uint32(16+5+len(document)))
	m = append(append(m, 0, 0, 0, 0), request...)
	m = binary.LittleEndian.AppendUint32(m, 2013)
	return append(append(m, 0, 0, 0, 0, 0), document...)
}

func TestAClientOfADatabaseMakesOneAttemptWithItsRetriesOff(t *testing.T) {
	for name, call := range wireClients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempts, err := call(t, true)
			require.Equal(t, 1, attempts, err)
			require.True(t, backoff.Policy{}.Decide(1, err).Again, "%T %v", err, err)
			attempts, err = call(t, false)
			require.Greater(t, attempts, 1, "there is something to switch off: %v", err)
		})
	}
}
