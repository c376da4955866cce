package evidence

import (
	"strings"

	"github.com/gobackoff/backoff/internal/errtree"
)

// A list of codes, each between spaces. A program needs less memory for one than
// for a switch.
type codes string

// has reports whether code is in the list.
func (c codes) has(code string) bool { return code != "" && strings.Contains(string(c), " "+code+" ") }

// ofSQLState returns the class of a SQLSTATE. A failure of class 08 may have
// come after the statement reached the server, so it is Retryable and not
// NotSent.
//
// Source: PostgreSQL, appendix A.
func ofSQLState(e sqlState) Class {
	const (
		retryable codes = " 40001 40P01 55P03 57P01 57P02 57P03 57P05 25P03 "
		permanent codes = " 0A 21 22 23 25 26 28 2D 3D 3F 42 44 "
	)
	state := e.SQLState()
	switch {
	case len(state) != 5:
		return Unknown
	case retryable.has(state) || state[:2] == "08" || isOfSession(e):
		return Retryable
	case state[:2] == "53":
		return Throttled
	case permanent.has(state[:2]):
		return Permanent
	}
	return Unknown
}

// IsOfSession reports whether the tree of err has a SQLSTATE that the same
// statement may not meet in another session.
func IsOfSession(err error) bool {
	e, ok := errtree.As[sqlState](err)
	return ok && isOfSession(e)
}

// isOfSession reports the same of an error alone: the server of the session is
// no primary any more, or a prepared statement is gone (26000) or has become wrong.
// 0A000 says that of plans, and of a transaction
// that must not be begun on a standby, but else of what a server cannot do at
// all. So the function of the server that says it counts, which is in the field
// Routine and, unlike the text, in no language.
func isOfSession(e sqlState) bool {
	const (
		states   codes = " 25006 26000 "
		routines codes = " RevalidateCachedQuery call_enum_check_hook call_bool_check_hook GetSerializableTransactionSnapshot "
	)
	return states.has(e.SQLState()) || e.SQLState() == "0A000" && routines.has(field(e, "Routine"))
}

// ofAWSCode returns the class of an error code that the AWS SDKs retry, and
// Unknown for every other one.
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior".
func ofAWSCode(code string) Class {
	const (
		retryable codes = " RequestTimeout RequestTimeoutException "
		throttled codes = " Throttling ThrottlingException ThrottledException RequestThrottledException RequestThrottled " +
			"TooManyRequestsException ProvisionedThroughputExceededException TransactionInProgressException SlowDown " +
			"RequestLimitExceeded BandwidthLimitExceeded LimitExceededException PriorRequestNotComplete EC2ThrottledException "
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
	switch {
	case e.HasErrorLabel("SystemOverloadedError"):
		return specific | Throttled
	case e.HasErrorLabel("TransientTransactionError"), e.HasErrorLabel("RetryableWriteError"), e.HasErrorLabel("RetryableError"):
		return specific | Retryable
	}
	c, ok := e.(mongoCoded)
	if ok && (c.HasErrorCode(13) || c.HasErrorCode(18) || c.HasErrorCode(121) || c.HasErrorCode(11000)) {
		return specific | Permanent
	}
	return 0
}

// ofText returns the class of the code that the text of a gRPC status, or of an
// error of Redis, begins with. A server of Redis that is no master, or is not
// ready, refuses a command before it runs. That is Retryable and not NotSent,
// because other commands of the same pipeline may have run. ERR of Redis says
// nothing: a server that has too many clients says it, too.
//
// Source: Redis, "Redis cluster specification", redis.conf, and the errors of
// server.c.
func ofText(text string) Class {
	const (
		final codes = " InvalidArgument NotFound AlreadyExists PermissionDenied FailedPrecondition " +
			"OutOfRange Unimplemented DataLoss Unauthenticated " +
			"WRONGTYPE NOAUTH WRONGPASS NOPERM NOSCRIPT NOGROUP BUSYGROUP CROSSSLOT "
		passing codes = " READONLY MOVED ASK TRYAGAIN CLUSTERDOWN MASTERDOWN LOADING BUSY NOREPLICAS MISCONF UNBLOCKED "
	)
	code, _, _ := strings.Cut(strings.TrimPrefix(text, "rpc error: code = "), " ")
	switch {
	case passing.has(code):
		return Retryable
	case final.has(code), saidByText(text) == permanent:
		return Permanent
	}
	return Unknown
}
