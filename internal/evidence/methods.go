package evidence

import "context"

// The methods by which errors of other libraries say what they mean.
type (
	azureFinal    interface{ NonRetriable() }             // azcore
	awsRetryable  interface{ RetryableError() bool }      // AWS SDK
	awsCanceled   interface{ CanceledError() bool }       // AWS SDK
	awsCode       interface{ ErrorCode() string }         // AWS SDK
	awsStatus     interface{ HTTPStatusCode() int }       // AWS SDK
	pgxSafe       interface{ SafeToRetry() bool }         // pgx
	sqlState      interface{ SQLState() string }          // pgx, lib/pq
	googleStatus  interface{ HTTPCode() int }             // gax
	mongoLabelled interface{ HasErrorLabel(string) bool } // MongoDB
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
	case azureFinal, awsRetryable, awsCanceled, awsCode, awsStatus, pgxSafe, sqlState, googleStatus,
		mongoLabelled, timeouter, temporary, comparer:
		return true
	}
	return false
}

// ofMethods reads what an error says of itself.
func ofMethods(err error) finding {
	var found finding
	if _, ok := err.(azureFinal); ok {
		found = conclusive.says(Permanent)
	}
	if e, ok := err.(awsRetryable); ok {
		if e.RetryableError() {
			found = max(found, specific.says(Retryable))
		} else {
			found = conclusive.says(Permanent)
		}
	}
	if e, ok := err.(awsCanceled); ok && e.CanceledError() {
		found = conclusive.says(Permanent)
	}
	if e, ok := err.(pgxSafe); ok && e.SafeToRetry() {
		found = max(found, conclusive.says(Retryable)) // not NotSent: pgx says it of statements that ran
	}
	if e, ok := err.(comparer); ok && e.Is(context.Canceled) {
		found = conclusive.says(Permanent)
	}
	return found
}

// ofCodes reads the codes that an error carries.
func ofCodes(err error) finding {
	var found finding
	if e, ok := err.(sqlState); ok {
		found = max(found, specific.says(ofSQLState(e.SQLState())))
	}
	if e, ok := err.(awsCode); ok {
		found = max(found, specific.says(ofAWSCode(e.ErrorCode())))
	}
	status := 0
	if e, ok := err.(awsStatus); ok {
		status = e.HTTPStatusCode() // 0 where no answer came
	}
	if e, ok := err.(googleStatus); ok {
		status = e.HTTPCode() // -1 where the answer was not HTTP
	}
	found = max(found, weak.says(Status(status)))
	if e, ok := err.(mongoLabelled); ok && isRetryableLabelled(e) {
		found = max(found, specific.says(Retryable))
	}
	return found
}

func isRetryableLabelled(e mongoLabelled) bool {
	return e.HasErrorLabel("TransientTransactionError") || e.HasErrorLabel("RetryableWriteError") || e.HasErrorLabel("RetryableError")
}
