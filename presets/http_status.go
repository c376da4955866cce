package presets

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// The classifiers in this file are the tables by which well-known systems
// decide from an HTTP status whether to retry. They belong in Classify of a
// policy. They read the status by the error's method HTTPStatusCode() int,
// which backoffhttp's StatusError and the errors of many clients have. An error
// without this method is ClassUnknown, which leaves connections to backoffhttp.
// A table does not decide whether the request may be sent twice: Idempotency
// does.
//
// All tables that contain 429 make it ClassThrottled.

// HTTPStatus returns a [backoff.Classifier] that retries exactly the given
// statuses: a custom table.
func HTTPStatus(codes ...int) backoff.Classifier {
	table := slices.Clone(codes)
	return byStatus(func(code int) bool { return slices.Contains(table, code) })
}

// IoTCoreStatus retries 429 and any 5xx. Source: Google Cloud IoT Core,
// "Implementing exponential backoff".
func IoTCoreStatus() backoff.Classifier {
	return byStatus(func(code int) bool { return code == 429 || is5xx(code) })
}

// CloudStorageStatus is the table of Cloud Storage's client libraries for C++,
// Go, Java, Node.js and Python: 408, 429, 500, 502, 503 and 504. The Azure SDKs
// have the same. Source: Cloud Storage, "Retry strategy"; azcore,
// policy.RetryOptions.
func CloudStorageStatus() backoff.Classifier { return HTTPStatus(408, 429, 500, 502, 503, 504) }

// CloudStorageStatusDocs retries 408, 429 and any 5xx. The same page says so in
// general, and the library for Ruby and the code of the library for Go do so.
func CloudStorageStatusDocs() backoff.Classifier {
	return byStatus(func(code int) bool { return code == 408 || code == 429 || is5xx(code) })
}

// AWSStatus is the table of the AWS SDKs: 500, 502, 503 and 504, and with any
// status the error codes that the SDKs list as transient or throttling. It
// reads the code by the error's method ErrorCode() string. A bare 429 or 408
// is not retried. backoffhttp finds the code in the header X-Amzn-Errortype;
// for services that have it in the body, use a hook (Transport.Inspect).
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior"; aws-sdk-go-v2,
// aws/retry.
func AWSStatus() backoff.Classifier {
	byCode := byStatus(func(code int) bool { return code == 500 || code >= 502 && code <= 504 })
	return func(err error) backoff.Class {
		if e, ok := errtree.As[interface{ ErrorCode() string }](err); ok && e.ErrorCode() != "" {
			if class := backoff.DefaultClassifier(onlyCode(e.ErrorCode())); class != backoff.ClassUnknown {
				return class
			}
		}
		return byCode(err)
	}
}

// onlyCode is an error that has a code and nothing else.
type onlyCode string

// Error implements error.
func (c onlyCode) Error() string { return string(c) }

// ErrorCode is read by [backoff.DefaultClassifier].
func (c onlyCode) ErrorCode() string { return string(c) }

// is5xx reports whether a status is an error of the server.
func is5xx(code int) bool { return code >= 500 && code < 600 }

// byStatus returns a classifier that retries the statuses that accept accepts.
// Some clients report a status of 0 when there was no response; that is
// ClassUnknown.
func byStatus(accept func(code int) bool) backoff.Classifier {
	return func(err error) backoff.Class {
		e, ok := errtree.As[interface{ HTTPStatusCode() int }](err)
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

// EnvoyRetryOn returns the classifier of Envoy's retry_on, and of Istio's
// retryOn: a list of groups separated by commas. codes are its
// retriable_status_codes.
//
//   - "5xx": any 5xx, and no response at all: a reset, a refused connection or
//     stream.
//   - "gateway-error": the same for 502, 503 and 504.
//   - "retriable-4xx": 409. "retriable-status-codes": codes.
//   - "reset": no response at all. "connect-failure": no connection.
//     "refused-stream": a stream that HTTP/2 refused.
//
// Other groups are errors. The conditions on headers (retriable-headers)
// cannot be put into a list. envoy-ratelimited retries what a server says not
// to retry, which backoffhttp obeys. gRPC's groups belong to gRPC. Envoy does
// not look at the method: set Idempotency if you want that too.
//
// Source: Envoy, router filter, x-envoy-retry-on, and RetryStateImpl.
func EnvoyRetryOn(groups string, codes ...int) (backoff.Classifier, error) {
	on := envoyRetryOn{groups: make(map[string]bool), codes: slices.Clone(codes)}
	for group := range strings.SplitSeq(groups, ",") {
		group = strings.TrimSpace(group)
		if !slices.Contains(envoyGroups, group) {
			return nil, errors.New("presets: EnvoyRetryOn: unknown group " + group)
		}
		on.groups[group] = true
	}
	return on.class, nil
}

// envoyGroups are the groups that are known.
var envoyGroups = []string{"5xx", "gateway-error", "reset", "connect-failure", "refused-stream",
	"retriable-4xx", "retriable-status-codes"}

// envoyRetryOn is what a list says: its groups, and the codes of one of them.
type envoyRetryOn struct {
	groups map[string]bool
	codes  []int
}

// accepts reports whether the groups retry a status.
func (on *envoyRetryOn) accepts(code int) bool {
	return on.groups["5xx"] && is5xx(code) ||
		on.groups["gateway-error"] && code >= 502 && code <= 504 ||
		on.groups["retriable-4xx"] && code == 409 ||
		on.groups["retriable-status-codes"] && slices.Contains(on.codes, code)
}

// class is the classifier of the groups.
func (on *envoyRetryOn) class(err error) backoff.Class {
	class := byStatus(on.accepts)(err)
	switch {
	case class != backoff.ClassUnknown, on.groups["5xx"], on.groups["gateway-error"], on.groups["reset"]:
		return class
	case on.unsent(&errtree.Walk{Left: errtree.Most}, err):
		return backoff.ClassNotSent
	}
	return backoff.ClassPermanent
}

// unsent reports whether nothing was sent, for a reason that the groups retry.
// If errors are joined, each must have such a reason.
func (on *envoyRetryOn) unsent(w *errtree.Walk, err error) bool {
	if err == nil || w.Left <= 0 {
		return false
	}
	w.Left--
	if gave, ok := err.(*backoff.Error); ok && gave != nil && gave.Last != nil {
		return on.unsent(w, gave.Last)
	}
	switch {
	case on.groups["connect-failure"] && noConnection(err), on.groups["refused-stream"] && refusedStream(err):
		return true
	}
	branches, inner := errtree.Unwrap(err)
	for _, branch := range branches {
		if !on.unsent(w, branch) {
			return false
		}
	}
	return len(branches) > 0 || on.unsent(w, inner)
}

// noConnection reports whether err is an error of dialing, or of looking up a
// name, that may be retried. It goes by the names of the types, since importing
// package net would make this package heavy.
func noConnection(err error) bool {
	t := reflect.TypeOf(err).String()
	connects := t == "*net.DNSError" || t == "*net.OpError" && strings.HasPrefix(err.Error(), "dial ")
	return connects && backoff.DefaultClassifier(err).Retryable()
}

// streamError has the fields of net/http's error of a stream, so that errors.As
// can fill it.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error implements error.
func (streamError) Error() string { return "stream error" }

// refusedStream reports whether err itself says that HTTP/2 refused the stream.
// The error is known by its fields or, in golang.org/x/net and where net/http
// cannot repeat the request, by its text.
func refusedStream(err error) bool {
	const refused = 7 // RFC 9113, 7
	switch e := err.(type) {
	case interface{ As(any) bool }:
		var stream streamError
		return e.As(&stream) && stream.Code == refused
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return false // the text is not its own
	}
	text := strings.TrimPrefix(err.Error(), "http2: Transport: cannot retry err [")
	_, code, _ := strings.Cut(text, "; ")
	return strings.HasPrefix(text, "stream error: stream ID ") && strings.HasPrefix(code, "REFUSED_STREAM")
}
