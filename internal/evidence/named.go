package evidence

import (
	"reflect"
	"strings"

	"github.com/gobackoff/backoff/internal/errtree"
)

// said is what a type says of the errors that have it.
type said uint8

const (
	nothing      said = iota
	gaveUp            // a loop has made all the attempts that it would make
	permanent         // every repetition would meet it again
	transient         // it may pass
	throttled         // the server gets too many requests
	inVain            // a limiter of the program would let the call go after its deadline
	asText            // only the text tells
	byCode            // the text begins with a code
	byRetriable       // the field Retriable tells
	byStatus          // a field is an HTTP status
	byGrant           // the field ErrorCode is one of OAuth, or else a field is an HTTP status
	byReply           // the field Code is that of a reply of SMTP or FTP
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
	{"github.com/nats-io/nats.go", "jsError", asText},
	{"golang.org/x/oauth2", "RetrieveError", byGrant},
	{"google.golang.org/api/googleapi", "Error", byStatus},
	{"github.com/Azure/azure-sdk-for-go/sdk/azcore/", "ResponseError", byStatus},
	{"github.com/openai/openai-go/", "Error", byStatus},
	{"github.com/stripe/stripe-go/", "Error", byStatus},
	{"k8s.io/apimachinery/pkg/api/errors", "StatusError", byStatus},
	{"github.com/slack-go/slack", "RateLimitedError", throttled},
	{"net/textproto", "Error", byReply},
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
	return saidByName(t.PkgPath(), t.Name(), err)
}

// saidByName is saidBy, given the name of the type.
func saidByName(pkg, name string, err error) said {
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

// GaveUp reports whether err is the one by which a loop of another library says
// that it gave up. A loop that returns the last error as it is cannot be known.
func GaveUp(err error) bool { return saidBy(err) == gaveUp }

// ofNamed reads an error of a type that is known by its name. A reply of 4yz may
// pass, one of 5yz does not.
//
// Source: RFC 5321, 4.2.1; RFC 959, 4.2.1.
func ofNamed(err error, by said) finding {
	switch {
	case by == permanent:
		return conclusive | Permanent
	case by == transient:
		return weak | Retryable
	case by == throttled:
		return specific | Throttled
	case by == inVain:
		return weak | NotSent
	case by == byStatus:
		return says(weak, statusIn(err))
	case by == byGrant:
		return ofGrant(err)
	case by == byCode:
		return says(specific, ofText(err.Error()))
	case by == byReply && number(err, "Code")/100 == 4:
		return specific | Retryable
	case by == byReply && number(err, "Code")/100 == 5, by == byRetriable && field(err, "Retriable") == "false",
		by == byIsNotFound && field(err, "IsNotFound") == "true":
		return specific | Permanent
	}
	return 0
}

// ofGrant returns what the error of a token endpoint says. An endpoint that is
// overloaded may answer 429 and have a code that says less. Without a code of
// OAuth the answer is that of a proxy.
//
// Source: RFC 6749, 4.1.2.1 and 5.2; RFC 8628, 3.5.
func ofGrant(err error) finding {
	const (
		final codes = " invalid_request invalid_client invalid_grant unauthorized_client unsupported_grant_type invalid_scope " +
			"unsupported_response_type access_denied expired_token "
		passing codes = " server_error temporarily_unavailable authorization_pending "
	)
	status := statusIn(err)
	switch code := field(err, "ErrorCode"); {
	case final.has(code):
		return specific | Permanent
	case code == "slow_down", passing.has(code) && status == Throttled:
		return specific | Throttled
	case passing.has(code):
		return specific | Retryable
	}
	return says(weak, status)
}

// wasConnected reports whether a net.OpError is of a connection that was up.
// When a router then says that the peer cannot be reached, the request may have
// been sent before.
func wasConnected(err error) bool {
	op := field(err, "Op")
	return op != "" && op != "dial" && op != "proxyconnect"
}

// ofDial returns what the error of a dial says, given what it wraps. As long as
// there is no connection, nothing was sent.
func ofDial(err error, found finding) finding {
	if found == 0 {
		errtree.Find(err, func(err error) bool {
			e, ok := err.(Errno)
			if ok {
				found = whileDialing[ConnectionErrorOf(e)]
			}
			return ok
		})
	}
	if found == weak|Retryable {
		return weak | NotSent
	}
	return found
}

// whileDialing are the errors of the system that say nothing of a connection that
// is there.
var whileDialing = [...]finding{unready: weak | NotSent, refusedHere: weak | Permanent}
