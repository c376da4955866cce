package evidence

import "strings"

// A list of codes, each between spaces. A program needs less memory for one than
// for a switch.
type codes string

// has reports whether code is in the list.
func (c codes) has(code string) bool {
	return code != "" && strings.Contains(string(c), " "+code+" ")
}

// ofSQLState returns the class of a SQLSTATE. A failure of class 08 may have
// come after the statement reached the server, so it is Retryable and not
// NotSent.
//
// Source: PostgreSQL, appendix A.
func ofSQLState(state string) Class {
	const (
		retryable codes = " 40001 40P01 55P03 57P01 57P02 57P03 57P05 "
		permanent codes = " 0A 21 22 23 25 26 28 2D 3D 3F 42 44 "
	)
	switch {
	case len(state) != 5:
		return Unknown
	case retryable.has(state) || state[:2] == "08":
		return Retryable
	case state[:2] == "53":
		return Throttled
	case permanent.has(state[:2]):
		return Permanent
	}
	return Unknown
}

// ofAWSCode returns the class of an error code that the AWS SDKs retry, and
// Unknown for every other one.
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior".
func ofAWSCode(code string) Class {
	const (
		retryable codes = " RequestTimeout RequestTimeoutException "
		throttled codes = " Throttling ThrottlingException ThrottledException RequestThrottledException " +
			"TooManyRequestsException ProvisionedThroughputExceededException " +
			"TransactionInProgressException RequestLimitExceeded BandwidthLimitExceeded " +
			"LimitExceededException RequestThrottled SlowDown PriorRequestNotComplete " +
			"EC2ThrottledException "
	)
	switch {
	case retryable.has(code):
		return Retryable
	case throttled.has(code):
		return Throttled
	}
	return Unknown
}

// ofMongo reads the labels of an error of MongoDB, and its codes: Unauthorized,
// AuthenticationFailed, DocumentValidationFailure and DuplicateKey are
// permanent.
func ofMongo(e mongoLabelled) finding {
	if e.HasErrorLabel("SystemOverloadedError") {
		return specific | Throttled
	}
	for _, label := range [...]string{"TransientTransactionError", "RetryableWriteError", "RetryableError"} {
		if e.HasErrorLabel(label) {
			return specific | Retryable
		}
	}
	coded, ok := e.(mongoCoded)
	for _, code := range [...]int{13, 18, 121, 11000} {
		if ok && coded.HasErrorCode(code) {
			return specific | Permanent
		}
	}
	return 0
}

// hasPermanentCode reads the code that the text of a gRPC status, or of an error
// of Redis, begins with. ERR of Redis says nothing: a server that has too many
// clients says it, too.
func hasPermanentCode(text string) bool {
	const listed codes = " InvalidArgument NotFound AlreadyExists PermissionDenied FailedPrecondition " +
		"OutOfRange Unimplemented DataLoss Unauthenticated " +
		"WRONGTYPE NOAUTH WRONGPASS NOPERM NOSCRIPT NOGROUP BUSYGROUP CROSSSLOT "
	code, _, _ := strings.Cut(strings.TrimPrefix(text, "rpc error: code = "), " ")
	return listed.has(code) || saidByText(text) == permanent
}
