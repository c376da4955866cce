package backoffslog

import "github.com/gobackoff/backoff/internal/errortype"

// ErrorType returns a short name for the kind of err. There are few such names,
// so they can be used for grouping and as labels of metrics, unlike an error's
// text. OpenTelemetry calls it error.type:
//
//   - the status of an HTTP response, such as "503", from HTTPStatusCode() int
//     if that is 100 to 599
//   - the code of a gRPC error, such as "UNAVAILABLE", from GRPCStatus()
//   - the SQLSTATE, such as "40001", from SQLState() string
//   - what went wrong in the network: "connection refused", "connection reset",
//     "host unreachable", "no such host", "host lookup failed", "timeout",
//     "canceled" or "EOF"
//   - otherwise the type, such as "*fs.PathError", of the first error in the
//     tree that is not just a wrapper: one of packages fmt and errors, a
//     [net/url.Error], or one that this library put around the operation's
//     error (see [backoff.Cause])
//
// ErrorType(nil) is "".
func ErrorType(err error) string { return errortype.Of(err) }
