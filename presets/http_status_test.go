package presets_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

// answered is an error of a client that got a response.
type answered struct {
	code int
	aws  string
}

func (a answered) Error() string       { return fmt.Sprint("status ", a.code) }
func (a answered) HTTPStatusCode() int { return a.code }
func (a answered) ErrorCode() string   { return a.aws }

// retried lists the statuses that a classifier retries, and checks that it
// retries nothing else and throttles at 429 only.
func retried(t *testing.T, classify backoff.Classifier) []int {
	var codes []int
	for code := 200; code < 600; code++ {
		class := classify(fmt.Errorf("call: %w", answered{code: code}))
		require.NotEqual(t, backoff.ClassUnknown, class, "%d", code)
		if class.Retryable() {
			codes = append(codes, code)
			require.Equal(t, code == 429, class == backoff.ClassThrottled, "%d", code)
		}
	}
	return codes
}

func from500(codes ...int) []int {
	for code := 500; code < 600; code++ {
		codes = append(codes, code)
	}
	return codes
}

func TestStatusTables(t *testing.T) {
	for name, c := range map[string]struct {
		classify backoff.Classifier
		want     []int
	}{
		"iot core":           {presets.IoTCoreStatus(), from500(429)},
		"cloud storage":      {presets.CloudStorageStatus(), []int{408, 429, 500, 502, 503, 504}},
		"cloud storage docs": {presets.CloudStorageStatusDocs(), from500(408, 429)},
		"aws":                {presets.AWSStatus(), []int{500, 502, 503, 504}},
		"own":                {presets.HTTPStatus(418), []int{418}},
		"none":               {presets.HTTPStatus(), nil},
		"envoy 5xx":          {envoy(t, "5xx"), from500()},
		"envoy gateway":      {envoy(t, "gateway-error"), []int{502, 503, 504}},
		"envoy 4xx":          {envoy(t, "retriable-4xx"), []int{409}},
		"envoy codes":        {envoy(t, "retriable-status-codes", 408, 503), []int{408, 503}},
		"envoy reset":        {envoy(t, "reset,connect-failure,refused-stream"), nil},
		"istio's example":    {envoy(t, "connect-failure, 5xx,reset"), from500()},
	} {
		require.Equal(t, c.want, retried(t, c.classify), name)
	}
}

func envoy(t *testing.T, groups string, codes ...int) backoff.Classifier {
	classify, err := presets.EnvoyRetryOn(groups, codes...)
	require.NoError(t, err)
	return classify
}

func TestTablesKeepACopyOfTheirCodes(t *testing.T) {
	codes := []int{500}
	own := presets.HTTPStatus(codes...)
	codes[0] = 400
	require.Equal(t, []int{500}, retried(t, own))
}

// The tables do not judge connections, and a status of 0 is no status.
func TestTablesKnowNothingOfConnections(t *testing.T) {
	for _, classify := range []backoff.Classifier{
		presets.IoTCoreStatus(), presets.CloudStorageStatus(), presets.AWSStatus(),
		envoy(t, "5xx"), envoy(t, "gateway-error"), envoy(t, "reset"),
	} {
		for _, err := range []error{syscall.ECONNRESET, io.ErrUnexpectedEOF, answered{code: 0}} {
			require.Equal(t, backoff.ClassUnknown, classify(err))
		}
	}
}

func TestAWSGoesByTheErrorCodeFirst(t *testing.T) {
	classify := presets.AWSStatus()
	for _, c := range []struct {
		status int
		code   string
		want   backoff.Class
	}{
		{400, "ThrottlingException", backoff.ClassThrottled},
		{503, "SlowDown", backoff.ClassThrottled},
		{400, "RequestTimeout", backoff.ClassRetryable},
		{400, "ValidationException", backoff.ClassPermanent},
		{503, "ServiceUnavailable", backoff.ClassRetryable},
		{429, "", backoff.ClassPermanent},
		{408, "", backoff.ClassPermanent},
	} {
		require.Equal(t, c.want, classify(answered{code: c.status, aws: c.code}), "%d %s", c.status, c.code)
	}
}

func TestEnvoyTellsFailuresOfConnectionsApart(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "http://a.test", Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	slow := &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	missing := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "a.test", IsNotFound: true}}
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	name := &net.DNSError{Name: "a.test", IsTemporary: true}
	connects := []error{refused, slow, name, errors.Join(refused, slow), &backoff.Error{Attempts: 1, Last: refused}}

	stream := refusing(7)
	text := errors.New("stream error: stream ID 1; REFUSED_STREAM; received from peer") // of golang.org/x/net
	body := errors.New("http2: Transport: cannot retry err [stream error: stream ID 3; REFUSED_STREAM] after Request.Body was written; define Request.GetBody to avoid this error")
	streams := []error{stream, text, body, fmt.Errorf("attempt: %w", body), errors.Join(stream, text)}

	both := []error{errors.Join(stream, refused)}
	wrapped := func(errs ...error) error { return fmt.Errorf("%w", errors.Join(errs...)) }
	others := []error{
		wrapped(refused, reset), wrapped(slow, reset), wrapped(stream, reset), wrapped(text, reset), wrapped(name, reset),
		missing, reset, refusing(2), errors.New("?"), errors.New("stream error: stream ID 1; INTERNAL_ERROR; REFUSED_STREAM"),
		errors.Join(refused, reset), errors.Join(reset, refused), errors.Join(stream, reset), errors.Join(text, refusing(2)), errors.Join(stream, errors.New("?")),
	}
	for groups, want := range map[string][]error{
		"connect-failure":                connects,
		"refused-stream":                 streams,
		"connect-failure,refused-stream": slices.Concat(connects, streams, both),
		"retriable-4xx":                  nil,
	} {
		classify := envoy(t, groups)
		for _, err := range slices.Concat(connects, streams, both, others) {
			class := backoff.ClassPermanent
			if slices.Contains(want, err) {
				class = backoff.ClassNotSent
			}
			require.Equal(t, class, classify(err), "%s: %v", groups, err)
		}
	}
}

// refusing is a stream's error as net/http has it: of a type that cannot be
// named, but fills any struct of the same fields.
type refusing uint32

func (refusing) Error() string { return "stream error" }

func (r refusing) As(target any) bool {
	fields := reflect.ValueOf(target).Elem()
	if fields.Kind() != reflect.Struct || fields.NumField() != 3 || fields.Type().Field(1).Name != "Code" {
		return false
	}
	fields.Field(1).SetUint(uint64(r))
	return true
}

func TestEnvoyGroupsThatAreNotKnownAreRefused(t *testing.T) {
	for _, groups := range []string{"", "5XX", "5xx,", "envoy-ratelimited", "retriable-headers", "cancelled", "http3-post-connect-failure"} {
		_, err := presets.EnvoyRetryOn(groups)
		require.ErrorContains(t, err, "unknown group", groups)
	}
}

// cycle is an error that wraps itself, twice.
type cycle struct{}

func (cycle) Error() string   { return "cycle" }
func (cycle) Unwrap() []error { return []error{cycle{}, cycle{}} }

func TestTablesReadAnErrorWithoutAnEnd(t *testing.T) {
	envoy, err := presets.EnvoyRetryOn("5xx,connect-failure,refused-stream")
	require.NoError(t, err)
	for _, classify := range []backoff.Classifier{presets.AWSStatus(), presets.HTTPStatus(503), envoy} {
		require.NotEqual(t, backoff.ClassNotSent, classify(cycle{}))
	}
}

// 22 operations always, 11 under conditions, 14 never.
// objects.insert has two addresses. That each rule is right, backoffhttp's
// conformance tests show.
func TestCloudStorageHasEveryOperation(t *testing.T) {
	clear(presets.CloudStorageOperations()) // a copy
	count := map[string]int{}
	for pattern, rule := range presets.CloudStorageOperations() {
		require.True(t, strings.Contains(pattern, " /storage/v1/") || strings.Contains(pattern, " /upload/storage/v1/"), pattern)
		if rule != "always" && rule != "never" {
			rule = "conditionally"
		}
		count[rule]++
	}
	require.Equal(t, map[string]int{"always": 22, "conditionally": 11 + 1, "never": 14}, count)
}

// Istio's usual retryOn, for a policy of one's own.
func ExampleEnvoyRetryOn() {
	classify, err := presets.EnvoyRetryOn("5xx,reset,connect-failure")
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := presets.Istio()
	policy.Classify = classify
	fmt.Println(policy.Retryable(answered{code: 500}), policy.Retryable(answered{code: 429}))
	// Output: true false
}

func ExampleCloudStorageStatus() {
	classify := presets.CloudStorageStatus()
	for _, code := range []int{429, 501, 503} {
		fmt.Println(code, classify(answered{code: code}))
	}
	// Output:
	// 429 throttled
	// 501 permanent
	// 503 retryable
}

func ExampleCloudStorageOperations() {
	table := presets.CloudStorageOperations()
	fmt.Println(table["POST /storage/v1/b"])
	fmt.Println(table["DELETE /storage/v1/b/{bucket}/o/{object}"])
	fmt.Println(table["DELETE /storage/v1/b/{bucket}/o/{object}/acl/{entity}"])
	// Output:
	// always
	// ?ifGenerationMatch, ?generation
	// never
}
