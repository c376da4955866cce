//go:build nightly

package plugtest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
	googleoption "google.golang.org/api/option"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"resty.dev/v3"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

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
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		resp, err := own().Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		return backoffhttp.Check(resp)
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
		req, err := retryablehttp.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		return backoffhttp.Check(resp)
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
		req, err := runtime.NewRequest(ctx, "GET", url)
		if err != nil {
			return err
		}
		resp, err := runtime.NewPipeline("plugtest", "v1.0.0", runtime.PipelineOptions{}, options).Do(req)
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
		client, err := storage.NewClient(ctx, googleoption.WithEndpoint(url+"/storage/v1/"), googleoption.WithHTTPClient(own()))
		if err != nil {
			return err
		}
		defer client.Close()
		if off {
			client.SetRetry(storage.WithPolicy(storage.RetryNever))
		}
		_, err = client.Bucket("b").Attrs(ctx)
		return err
	}, classify: backoff.RetryIf(storage.ShouldRetry)},
	"Elasticsearch": {call: func(ctx context.Context, base string, off bool) error {
		u, err := url.Parse(base)
		if err != nil {
			return err
		}
		opts := []elastictransport.Option{elastictransport.WithURLs(u), elastictransport.WithTransport(own().Transport)}
		if off {
			opts = append(opts, elastictransport.WithDisableRetry())
		}
		client, err := elastictransport.NewClient(opts...)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, "GET", "/", nil)
		if err != nil {
			return err
		}
		resp, err := client.Perform(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		return backoffhttp.Check(resp)
	}, classify: backoffhttp.Classify},
	"client-go": {call: func(ctx context.Context, url string, off bool) error {
		client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: url, ContentConfig: rest.ContentConfig{
			NegotiatedSerializer: serializer.NewCodecFactory(k8sruntime.NewScheme()).WithoutConversion()}})
		if err != nil {
			return err
		}
		req := client.Get()
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
