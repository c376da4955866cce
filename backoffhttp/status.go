package backoffhttp

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/gobackoff/backoff"
)

// StatusError is an answer of HTTP as an error: what the [Transport] shows to
// classifiers and observers, and what [Check] returns. The caller of a Transport never
// gets it, but the answer itself.
//
// It holds the header, for request IDs and limits, but not the body, and neither URL
// nor request: its text is the status line, so that no credential gets into a log by
// it.
type StatusError struct {
	Code   int         // such as 503
	Status string      // such as "503 Service Unavailable"
	Header http.Header // of the answer; not to be written to

	class backoff.Class // that status and error code do not tell; ClassUnknown if they do
}

// Error returns the status line.
func (e *StatusError) Error() string {
	if e.Status != "" {
		return "status " + e.Status
	}
	return "status " + http.StatusText(e.Code)
}

// HTTPStatusCode returns the code, for whoever reads errors by method, as
// [backoff.DefaultClassifier] and the classifiers of package presets do.
func (e *StatusError) HTTPStatusCode() int { return e.Code }

// ErrorCode returns the error code that AWS's services send in the header
// X-Amzn-Errortype, without its namespace, or "". It is how a 400 that is a
// ThrottlingException is known. Services that have it in the body only want
// [Transport.Inspect].
func (e *StatusError) ErrorCode() string {
	code, _, _ := strings.Cut(e.Header.Get("X-Amzn-Errortype"), ":")
	return code[strings.LastIndexByte(code, '#')+1:]
}

// ResponseHeader returns a copy of the header without naming a type of net/http, for
// those who must not import it. A request ID is http.Header(h).Get("X-Amzn-Requestid").
func (e *StatusError) ResponseHeader() map[string][]string {
	return maps.Clone(e.Header)
}

// Check returns nil for an answer below 400, and an error for the others: a
// [*StatusError] with the hint and the "do not retry" of the server, if it sent any. It
// is for calls that are retried by [backoff.Policy.Do] and made by any client:
//
//	resp, err := client.Do(req)
//	if err != nil {
//		return err
//	}
//	defer resp.Body.Close()
//	if err := backoffhttp.Check(resp); err != nil {
//		return err
//	}
//
// Where the answer comes from a [Transport] that gave up on it, Check returns that
// Transport's [*backoff.Error], which is final to the policies around it: layers do not
// multiply, and one learns how many attempts were made, and why no more.
//
// It neither reads nor closes the body. A policy for such errors should have Classify
// as its classifier, lest it repeats what it does not know.
func Check(resp *http.Response) error {
	if resp.StatusCode < 400 {
		return nil
	}
	if err := givenUp(resp); err != nil {
		return err
	}
	e := newStatusError(resp)
	return e.advised(e, nil)
}

func newStatusError(resp *http.Response) *StatusError {
	return &StatusError{Code: resp.StatusCode, Status: resp.Status, Header: resp.Header}
}

type gaveUpKey struct{}

// markGivenUp leaves word, in the context of the request that was answered, why there
// were no more attempts.
func markGivenUp(resp *http.Response, err error) {
	if resp.Request == nil {
		return
	}
	var gave *backoff.Error
	if !errors.As(err, &gave) {
		return // definitive: the status tells
	}
	resp.Request = resp.Request.WithContext(context.WithValue(resp.Request.Context(), gaveUpKey{}, gave))
}

// givenUp returns what markGivenUp left.
func givenUp(resp *http.Response) error {
	if resp.Request == nil {
		return nil
	}
	if err, ok := resp.Request.Context().Value(gaveUpKey{}).(*backoff.Error); ok {
		return err
	}
	return nil
}
