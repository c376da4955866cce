//go:build nightly

package plugtest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/googleapis/gax-go/v2"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	googleoption "google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"resty.dev/v3"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// must returns what a test cannot do without.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// checked is the error of an answer.
func checked(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	resp.Body.Close()
	return backoffhttp.Check(resp)
}

// byStatus is the classifier of docs/clients.md.
func byStatus(err error) backoff.Class {
	var e *openai.Error
	if errors.As(err, &e) {
		return backoffhttp.StatusClass(e.StatusCode)
	}
	return backoff.ClassUnknown // DefaultClassifier decides
}

// httpClients are clients of docs/clients.md. Each makes a call, with its own
// retries switched off as there, or as the client is by default.
var httpClients = map[string]struct {
	call     func(ctx context.Context, url string, off bool) error
	classify backoff.Classifier
	quiet    bool // it makes no retries by default
}{
	"net/http": {quiet: true, classify: backoffhttp.Classify, call: func(ctx context.Context, url string, _ bool) error {
		return checked(own().Do(must(http.NewRequestWithContext(ctx, "GET", url, nil))))
	}},
	"resty": {quiet: true, classify: backoffhttp.Classify, call: func(ctx context.Context, url string, _ bool) error {
		client := resty.New().SetTransport(own().Transport)
		defer client.Close()
		resp, err := client.R().SetContext(ctx).Get(url)
		if err != nil {
			return err
		}
		return backoffhttp.Check(resp.RawResponse)
	}},
	"go-retryablehttp": {call: func(ctx context.Context, url string, off bool) error {
		client := retryablehttp.NewClient()
		client.Logger, client.HTTPClient = nil, own()
		if off {
			client.RetryMax = 0
			client.ErrorHandler = retryablehttp.PassthroughErrorHandler
		}
		return checked(client.Do(must(retryablehttp.NewRequestWithContext(ctx, "GET", url, nil))))
	}, classify: backoffhttp.Classify},
	"AWS": {call: func(ctx context.Context, url string, off bool) error {
		var retryer aws.Retryer
		if off {
			retryer = aws.NopRetryer{}
		}
		return head(ctx, s3Client(url, retryer, own()))
	}},
	"Azure": {call: func(ctx context.Context, url string, off bool) error {
		options := &policy.ClientOptions{Transport: own()}
		if off {
			options.Retry = policy.RetryOptions{MaxRetries: -1}
		}
		resp, err := runtime.NewPipeline("plugtest", "v1.0.0", runtime.PipelineOptions{}, options).Do(must(runtime.NewRequest(ctx, "GET", url)))
		if err != nil {
			return err
		}
		return runtime.NewResponseError(resp)
	}, classify: func(err error) backoff.Class {
		var e *azcore.ResponseError
		if errors.As(err, &e) {
			return backoffhttp.StatusClass(e.StatusCode)
		}
		return backoff.ClassUnknown
	}},
	"Cloud Storage": {call: func(ctx context.Context, url string, off bool) error {
		client := must(storage.NewClient(ctx, googleoption.WithEndpoint(url+"/storage/v1/"), googleoption.WithHTTPClient(own())))
		defer client.Close()
		if off {
			client.SetRetry(storage.WithPolicy(storage.RetryNever))
		}
		_, err := client.Bucket("b").Attrs(ctx)
		return err
	}, classify: backoff.RetryIf(storage.ShouldRetry)},
	"Elasticsearch": {call: func(ctx context.Context, base string, off bool) error {
		opts := []elastictransport.Option{elastictransport.WithURLs(must(url.Parse(base))), elastictransport.WithTransport(own().Transport)}
		if off {
			opts = append(opts, elastictransport.WithDisableRetry())
		}
		return checked(must(elastictransport.NewClient(opts...)).Perform(must(http.NewRequestWithContext(ctx, "GET", "/", nil))))
	}, classify: backoffhttp.Classify},
	"client-go": {call: func(ctx context.Context, url string, off bool) error {
		req := must(rest.UnversionedRESTClientFor(&rest.Config{Host: url, ContentConfig: rest.ContentConfig{
			NegotiatedSerializer: serializer.NewCodecFactory(k8sruntime.NewScheme()).WithoutConversion()}})).Get()
		if off {
			req.MaxRetries(0)
		}
		return req.Do(ctx).Error()
	}, classify: func(err error) backoff.Class {
		var e apierrors.APIStatus
		if errors.As(err, &e) {
			return backoffhttp.StatusClass(int(e.Status().Code))
		}
		return backoff.ClassUnknown
	}},
	"openai-go": {call: func(ctx context.Context, url string, off bool) error {
		options := []option.RequestOption{option.WithBaseURL(url), option.WithAPIKey("key"), option.WithHTTPClient(own())}
		if off {
			options = append(options, option.WithMaxRetries(0))
		}
		client := openai.NewClient(options...)
		_, err := client.Models.Get(ctx, "m")
		return err
	}, classify: byStatus},
}

func TestAClientMakesOneAttemptWithItsRetriesOffAndItsErrorsAreRead(t *testing.T) {
	for name, client := range httpClients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := backoff.Policy{Classify: client.classify}
			for status, again := range map[int]bool{503: true, 404: false} {
				s := serve(t, answer(status, "", "Retry-After", "0"))
				err := client.call(t.Context(), s.URL, true)
				require.Error(t, err)
				s.waited(t)
				require.Equal(t, again, policy.Decide(1, err).Again, "%d: %T %v", status, err, err)
			}

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := serve(t, answer(503, "", "Retry-After", "0"), func(http.ResponseWriter, *http.Request) { cancel() })
			client.call(ctx, s.URL, false)
			require.Equal(t, client.quiet, len(s.gaps()) == 0, "there is something to switch off")
		})
	}
}

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
