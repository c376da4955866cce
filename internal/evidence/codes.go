package evidence

// ofSQLState returns the class of a SQLSTATE. A failure of class 08 may have
// come after the statement reached the server, so it is Retryable and not
// NotSent.
//
// Source: PostgreSQL, appendix A.
func ofSQLState(state string) Class {
	switch state {
	case "40001", "40P01", "55P03", "57P01", "57P02", "57P03", "57P05":
		return Retryable
	}
	if len(state) != 5 {
		return Unknown
	}
	switch state[:2] {
	case "08":
		return Retryable
	case "53":
		return Throttled
	case "0A", "21", "22", "23", "25", "26", "28", "2D", "3D", "3F", "42", "44":
		return Permanent
	}
	return Unknown
}

// ofAWSCode returns the class of an error code that the AWS SDKs retry, and
// Unknown for every other one.
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior".
func ofAWSCode(code string) Class {
	switch code {
	case "RequestTimeout", "RequestTimeoutException":
		return Retryable
	case "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException",
		"TooManyRequestsException", "ProvisionedThroughputExceededException",
		"TransactionInProgressException", "RequestLimitExceeded", "BandwidthLimitExceeded",
		"LimitExceededException", "RequestThrottled", "SlowDown", "PriorRequestNotComplete",
		"EC2ThrottledException":
		return Throttled
	}
	return Unknown
}
