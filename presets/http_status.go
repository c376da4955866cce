package presets

import (
	"errors"
	"slices"
	"strings"

	"github.com/gobackoff/backoff"
)

// The tables by which well-known systems tell from an HTTP status whether to retry, for
// Classify of a policy. They read the status by the error's method HTTPStatusCode()
// int, as backoffhttp's StatusError and many clients have it; of errors without one
// they know nothing (ClassUnknown), which leaves connections to backoffhttp. A table is
// the one factor; whether the request may be sent twice is the other.
//
// 429 is ClassThrottled in all of them that have it.

// HTTPStatus returns a [backoff.Classifier] that retries exactly the given statuses: a
// table of one's own.
func HTTPStatus(codes ...int) backoff.Classifier {
	table := slices.Clone(codes)
	return byStatus(func(code int) bool { return slices.Contains(table, code) })
}

// IoTCoreStatus is 429 and any 5xx. Source: Google Cloud IoT Core, "Implementing
// exponential backoff".
func IoTCoreStatus() backoff.Classifier {
	return byStatus(func(code int) bool { return code == 429 || is5xx(code) })
}

// CloudStorageStatus is the table of Cloud Storage's client libraries for C++, Go,
// Java, Node.js and Python: 408, 429, 500, 502, 503 and 504. Source: Cloud Storage,
// "Retry strategy".
func CloudStorageStatus() backoff.Classifier { return HTTPStatus(408, 429, 500, 502, 503, 504) }

// CloudStorageStatusDocs is what the same page says in general, and the library for
// Ruby and the code of the one for Go do: 408, 429 and any 5xx.
func CloudStorageStatusDocs() backoff.Classifier {
	return byStatus(func(code int) bool { return code == 408 || code == 429 || is5xx(code) })
}

// AzureStatus is that of the Azure SDKs: 408, 429, 500, 502, 503 and 504. Source:
// azcore, policy.RetryOptions.
func AzureStatus() backoff.Classifier { return HTTPStatus(408, 429, 500, 502, 503, 504) }

// AWSStatus is that of the AWS SDKs: 500, 502, 503 and 504, and the error codes that
// they list as transient or throttling, read by the error's method ErrorCode() string,
// whatever the status. A bare 429 or 408 is not retried. backoffhttp finds the code in
// the header X-Amzn-Errortype; services that have it in the body want a hook
// (Transport.Inspect).
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior"; aws-sdk-go-v2,
// aws/retry.
func AWSStatus() backoff.Classifier {
	byCode := byStatus(func(code int) bool { return code == 500 || code >= 502 && code <= 504 })
	return func(err error) backoff.Class {
		if e, ok := errors.AsType[errorCode](err); ok && e.ErrorCode() != "" {
			if class := backoff.DefaultClassifier(onlyCode(e.ErrorCode())); class != backoff.ClassUnknown {
				return class
			}
		}
		return byCode(err)
	}
}

// Urllib3Status is that of Python's urllib3: the given statuses (its status_forcelist),
// and 413, 429 and 503 where there is a Retry-After, read by the error's method
// ResponseHeader() map[string][]string. Source: urllib3, util/retry.py.
func Urllib3Status(forcelist ...int) backoff.Classifier {
	table := slices.Clone(forcelist)
	return func(err error) backoff.Class {
		return byStatus(func(code int) bool {
			return slices.Contains(table, code) || (code == 413 || code == 429 || code == 503) && asksToWait(err)
		})(err)
	}
}

type (
	statusCode interface {
		error
		HTTPStatusCode() int
	}
	errorCode interface {
		error
		ErrorCode() string
	}
	responseHeader interface {
		error
		ResponseHeader() map[string][]string
	}
)

// onlyCode is an error of which nothing is known but its code.
type onlyCode string

func (c onlyCode) Error() string     { return string(c) }
func (c onlyCode) ErrorCode() string { return string(c) }

func asksToWait(err error) bool {
	e, ok := errors.AsType[responseHeader](err)
	return ok && len(e.ResponseHeader()["Retry-After"]) > 0
}

func is5xx(code int) bool { return code >= 500 && code < 600 }

// byStatus retries what accept accepts. A status of 0 is that of clients which got no
// answer.
func byStatus(accept func(code int) bool) backoff.Classifier {
	return func(err error) backoff.Class {
		e, ok := errors.AsType[statusCode](err)
		switch {
		case !ok || e.HTTPStatusCode() == 0:
			return backoff.ClassUnknown
		case !accept(e.HTTPStatusCode()):
			return backoff.ClassPermanent
		case e.HTTPStatusCode() == 429:
			return backoff.ClassThrottled
		}
		return backoff.ClassRetryable
	}
}

// EnvoyRetryOn returns the classifier of Envoy's retry_on, and of Istio's retryOn: a
// list of groups separated by commas. codes are its retriable_status_codes.
//
//   - "5xx": any 5xx, and no answer at all: a reset, a refused connection or stream.
//   - "gateway-error": the same for 502, 503 and 504.
//   - "retriable-4xx": 409. "retriable-status-codes": codes.
//   - "reset": no answer at all. "connect-failure": no connection. "refused-stream": a
//     stream that HTTP/2 refused.
//
// Other groups are errors: what Envoy knows of headers (retriable-headers) has no place
// in a list; envoy-ratelimited retries what says not to be retried, which backoffhttp
// obeys; and gRPC's groups belong to gRPC. Envoy does not look at the method: set
// Idempotency where that is wanted too.
//
// Source: Envoy, router filter, x-envoy-retry-on, and RetryStateImpl.
func EnvoyRetryOn(groups string, codes ...int) (backoff.Classifier, error) {
	var on envoyGroups
	for group := range strings.SplitSeq(groups, ",") {
		if !on.add(strings.TrimSpace(group), codes) {
			return nil, errors.New("presets: EnvoyRetryOn: unknown group " + strings.TrimSpace(group))
		}
	}
	return on.class, nil
}

type envoyGroups struct {
	all5xx, gateway, reset, connect, refused bool
	codes                                    []int
}

func (on *envoyGroups) add(group string, codes []int) bool {
	switch group {
	case "5xx":
		on.all5xx, on.reset = true, true
	case "gateway-error":
		on.gateway, on.reset = true, true
	case "reset":
		on.reset = true
	case "connect-failure":
		on.connect = true
	case "refused-stream":
		on.refused = true
	case "retriable-4xx":
		on.codes = append(on.codes, 409)
	case "retriable-status-codes":
		on.codes = append(on.codes, codes...)
	default:
		return false
	}
	return true
}

func (on *envoyGroups) class(err error) backoff.Class {
	class := byStatus(func(code int) bool {
		return on.all5xx && is5xx(code) || on.gateway && code >= 502 && code <= 504 || slices.Contains(on.codes, code)
	})(err)
	switch {
	case class != backoff.ClassUnknown || on.reset:
		return class
	case on.connect && noConnection(err), on.refused && refusedStream(err):
		return backoff.ClassNotSent
	}
	return backoff.ClassPermanent
}

// noConnection knows a net.OpError of dialling by its text, as importing its package
// would make this one heavy.
func noConnection(err error) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.HasPrefix(e.Error(), "dial ") {
			return backoff.DefaultClassifier(e).Retryable()
		}
	}
	return false
}

// streamError has the fields of net/http's error of a stream, which lets errors.As fill
// it.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

func refusedStream(err error) bool {
	const refused = 7 // RFC 9113, 7
	e, ok := errors.AsType[streamError](err)
	return ok && e.Code == refused
}
