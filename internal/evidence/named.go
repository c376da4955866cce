package evidence

import (
	"reflect"
	"strconv"
	"strings"
)

// said is what a type says of the errors that have it.
type said uint8

const (
	nothing      said = iota
	gaveUp            // a loop has made all the attempts that it would make
	permanent         // every repetition would meet it again
	transient         // it may pass
	asText            // only the text tells
	byCode            // the text begins with a code
	byRetriable       // the field Retriable tells
	byStatus          // the field Code is like an HTTP status
	byIsNotFound      // the field IsNotFound tells
	ofConnection      // the field Op tells whether there was a connection
	ofRequest         // io.EOF inside is a connection that was lost
)

// known are the errors that go by their names, because to import the package of
// a type would make every program that retries carry it. A package stands for
// those below it, such as its major versions, and no name for all of them. A
// table is smaller than code.
var known = [...]struct {
	pkg, name string
	says      said
}{
	{"github.com/aws/aws-sdk-go-v2/aws/", "MaxAttemptsError", gaveUp},
	{"github.com/aws/aws-sdk-go-v2/aws/", "QuotaExceededError", gaveUp},
	{"github.com/failsafe-go/failsafe-go/", "ExceededError", gaveUp},
	{"github.com/cenkalti/backoff/", "RetryError", gaveUp},
	{"github.com/cenkalti/backoff/", "PermanentError", permanent},
	{"github.com/cenkalti/backoff/", "permanent", permanent},
	{"github.com/avast/retry-go", "Error", gaveUp},
	{"github.com/avast/retry-go", "unrecoverableError", permanent},
	{"k8s.io/apimachinery/pkg/util/wait", "errInterrupted", gaveUp},
	{"fmt", "wrapError", asText},
	{"errors", "errorString", asText},
	{"crypto/x509", "", permanent},
	{"crypto/tls", "RecordHeaderError", permanent},
	{"google.golang.org/grpc/internal/status", "Error", byCode},
	{"github.com/twmb/franz-go/pkg/kerr", "Error", byRetriable},
	{"github.com/redis/", "", byCode},
	{"github.com/go-redis/", "", byCode},
	{"github.com/nats-io/nats.go", "APIError", byStatus},
	{"net", "DNSError", byIsNotFound},
	{"net", "OpError", ofConnection},
	{"net/url", "Error", ofRequest},
	{"internal/poll", "errNetClosing", transient}, // net.ErrClosed
}

// saidBy returns what the type of err, or the one that it points to, says. A
// pointer to nothing says nothing.
func saidBy(err error) said {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		if reflect.ValueOf(err).IsNil() {
			return nothing
		}
		t = t.Elem()
	}
	name, pkg := t.Name(), t.PkgPath()
	for i := range known {
		k := &known[i]
		switch {
		case name != k.name && k.name != "" || !strings.HasPrefix(pkg, k.pkg):
		case k.says == asText:
			return saidByText(err.Error())
		default:
			return k.says
		}
	}
	return nothing
}

// saidByText returns what the text of an error says that has no type of its own,
// and 0 if it says nothing: redis.Nil, sql.ErrNoRows, mongo.ErrNoDocuments and
// http.ErrSchemeMismatch, and the loops of go-retryablehttp and Cloud Storage.
func saidByText(text string) said {
	switch {
	case text == "redis: nil", text == "sql: no rows in result set", text == "mongo: no documents in result",
		text == "http: server gave HTTP response to HTTPS client":
		return permanent
	case strings.Contains(text, " giving up after ") && strings.Contains(text, " attempt(s)"),
		strings.HasPrefix(text, "storage: retry "):
		return gaveUp
	}
	return nothing
}

// GaveUp reports whether err is the one by which a loop of another library says
// that it gave up. A loop that returns the last error as it is cannot be known.
func GaveUp(err error) bool { return saidBy(err) == gaveUp }

// ofNamed reads an error of a type that is known by its name.
func ofNamed(err error, by said) finding {
	switch {
	case by == permanent:
		return conclusive | Permanent
	case by == transient:
		return weak | Retryable
	case by == byCode:
		return says(specific, ofText(err.Error()))
	case by == byStatus && strings.HasPrefix(field(err, "Code"), "4"),
		by == byRetriable && field(err, "Retriable") == "false",
		by == byIsNotFound && field(err, "IsNotFound") == "true":
		return specific | Permanent
	}
	return 0
}

// wasConnected reports whether a net.OpError is of a connection that was up.
// When a router then says that the peer cannot be reached, the request may have
// been sent before.
func wasConnected(err error) bool {
	op := field(err, "Op")
	return op != "" && op != "dial" && op != "proxyconnect"
}

// field returns the text of a field of the struct that err is or points to, or ""
// if there is none. reflect's FieldByName would do the same, and add 8 KiB to
// every program.
func field(err error, name string) string {
	s := reflect.Indirect(reflect.ValueOf(err))
	for i := 0; s.Kind() == reflect.Struct && i < s.NumField(); i++ {
		f := s.Field(i)
		switch {
		case s.Type().Field(i).Name != name:
		case f.Kind() == reflect.Bool:
			return strconv.FormatBool(f.Bool())
		case f.Kind() == reflect.Int:
			return strconv.FormatInt(f.Int(), 10)
		case f.Kind() == reflect.String:
			return f.String()
		}
	}
	return ""
}
