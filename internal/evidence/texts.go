package evidence

import (
	"io"
	"reflect"
	"slices"
	"strings"
)

// final are the texts of errors that a repetition would meet again.
var final = [...]string{
	// There is no such thing.
	"redis: nil", "sql: no rows in result set", "mongo: no documents in result", "nats: key not found",
	"nats: bucket not found", "nats: object not found", "http: server gave HTTP response to HTTPS client",

	// The program itself has closed it, and so it stays closed: also pgxpool, MongoDB
	// and franz-go.
	"sql: database is closed", "http: Server closed", "grpc: the server has been stopped", "redis: client is closed",
	"rpc error: code = Canceled desc = grpc: the client connection is closing", "closed pool", "client closed",
	"client is disconnected", "topology is closed", "kafka: tried to use a client that was closed",
	"nats: connection closed", "nats: connection draining", "nats: jetstream context closed",

	// nats.go refuses to send it.
	"nats: maximum payload exceeded", "nats: invalid subject", "nats: invalid subject name", "nats: invalid connection",
	"nats: invalid subscription", "nats: invalid message or message nil", "nats: invalid argument",
	"nats: invalid stream name", "nats: invalid consumer name", "nats: invalid bucket name", "nats: invalid key",
	"nats: authorization violation", "nats: message was already acknowledged",
}

// saidByText returns what the text of an error says that has no type of its own,
// and nothing if it says nothing. The limiter of golang.org/x/time/rate lets a call not
// wait if no wait would be long enough, or the shortest is too long.
func saidByText(text string) said {
	limiter := strings.HasPrefix(text, "rate: Wait(n=")
	switch {
	case slices.Contains(final[:], text), limiter && strings.Contains(text, ") exceeds limiter's burst "):
		return permanent
	case limiter && strings.HasSuffix(text, ") would exceed context deadline"):
		return inVain
	case strings.Contains(text, " giving up after ") && strings.Contains(text, " attempt(s)"), // go-retryablehttp
		strings.HasPrefix(text, "storage: retry "): // Cloud Storage
		return gaveUp
	}
	return nothing
}

// InVain reports whether err itself, without what it wraps, is that of a limiter
// which did not let the call wait, because its context would have ended before.
// Nothing left the program.
func InVain(err error) bool { return isPlain(err) && saidByText(err.Error()) == inVain }

// isPlain reports whether err has the type of most errors, that of errors.New.
func isPlain(err error) bool { return reflect.TypeOf(err) == reflect.TypeOf(io.EOF) }
