package evidence

import (
	"context"

	"github.com/gobackoff/backoff/internal/errtree"
)

// The methods by which errors of other libraries say what they mean.
type (
	azureNoRetry interface{ NonRetriable() }        // azcore
	awsRetryable interface{ RetryableError() bool } // AWS SDK
	awsCanceled  interface{ CanceledError() bool }  // AWS SDK
	awsCode      interface{ ErrorCode() string }    // AWS SDK
	awsStatus    interface{ HTTPStatusCode() int }  // AWS SDK
	pgxSafe      interface{ SafeToRetry() bool }    // pgx
	sqlState     interface {                        // pgx, lib/pq
		error
		SQLState() string
	}
	googleStatus  interface{ HTTPCode() int }             // gax
	mongoLabelled interface{ HasErrorLabel(string) bool } // MongoDB
	mongoCoded    interface{ HasErrorCode(int) bool }     // MongoDB
	timeouter     interface{ Timeout() bool }             // net.Error
	temporary     interface{ Temporary() bool }           // net.Error, once
	comparer      interface{ Is(error) bool }             // may say "I am context.Canceled"
)

// hasMethod reports whether err has at least one of the methods. It asks for
// all of them at once, because most errors have none.
//
//go:noinline
func hasMethod(err error) bool {
	switch err.(type) {
	case azureNoRetry, awsRetryable, awsCanceled, awsCode, awsStatus, pgxSafe, sqlState, googleStatus,
		mongoLabelled, timeouter, temporary, comparer:
		return true
	}
	return false
}

// ofMethods reads what an error says of itself. Temporary is deprecated, but part
// of the contract of the Cloud Storage clients: true counts, false does not.
func ofMethods(err error) finding {
	_, never := err.(azureNoRetry)
	tells, told := err.(awsRetryable)
	canceled, ofAWS := err.(awsCanceled)
	compares, is := err.(comparer)
	safe, ofPgx := err.(pgxSafe)
	passes, of := err.(temporary)
	switch {
	case never, told && !tells.RetryableError(), ofAWS && canceled.CanceledError(), is && compares.Is(context.Canceled):
		return conclusive | Permanent
	case ofPgx && safe.SafeToRetry(): // not NotSent: pgx says it of statements that ran
		return conclusive | Retryable
	case told:
		return specific | Retryable
	case errtree.IsTimeout(err), of && passes.Temporary():
		return weak | Retryable
	}
	return 0
}

// ofCodes reads the codes that an error carries.
func ofCodes(err error) finding {
	var found finding
	if e, ok := err.(sqlState); ok {
		found = max(found, says(specific, ofSQLState(e)))
	}
	if e, ok := err.(awsCode); ok {
		found = max(found, says(specific, ofAWSCode(e.ErrorCode())))
	}
	status := 0
	if e, ok := err.(awsStatus); ok {
		status = e.HTTPStatusCode() // 0 where no answer came
	}
	if e, ok := err.(googleStatus); ok {
		status = e.HTTPCode() // -1 where the answer was not HTTP
	}
	found = max(found, says(weak, Status(status)))
	if e, ok := err.(mongoLabelled); ok {
		found = max(found, ofMongo(e))
	}
	return found
}
