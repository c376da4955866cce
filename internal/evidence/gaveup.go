package evidence

import (
	"reflect"
	"strings"
)

// said is what a type says of the errors that have it.
type said uint8

const (
	nothing said = iota
	gaveUp       // a loop has made all the attempts that it would make
	final        // a mark tells such a loop not to try again
	asText       // only the text tells
)

// loops are the errors of the loops of other libraries. They go by name, as in
// isType. The major version is left out. A table is smaller than code.
var loops = [...]struct {
	pkg, name string
	says      said
}{
	{"github.com/aws/aws-sdk-go-v2/aws/", "MaxAttemptsError", gaveUp},
	{"github.com/aws/aws-sdk-go-v2/aws/", "QuotaExceededError", gaveUp},
	{"github.com/failsafe-go/failsafe-go/", "ExceededError", gaveUp},
	{"github.com/cenkalti/backoff/", "RetryError", gaveUp},
	{"github.com/cenkalti/backoff/", "PermanentError", final},
	{"github.com/cenkalti/backoff/", "permanent", final},
	{"github.com/avast/retry-go", "Error", gaveUp},
	{"github.com/avast/retry-go", "unrecoverableError", final},
	{"k8s.io/apimachinery/pkg/util/wait", "errInterrupted", gaveUp},
	{"fmt", "wrapError", asText},
	{"errors", "errorString", asText},
}

// saidBy returns what the type of a name says.
func saidBy(pkg, name string) said {
	for i := range loops {
		if l := &loops[i]; name == l.name && strings.HasPrefix(pkg, l.pkg) {
			return l.says
		}
	}
	return nothing
}

// GaveUp reports whether err is the one by which a loop of another library says
// that it gave up. A loop that returns the last error as it is cannot be known.
func GaveUp(err error) bool {
	says := saidBy(nameOf(err))
	return says == gaveUp || says == asText && GaveUpText(err.Error())
}

// GaveUpText is GaveUp for the text of an error: go-retryablehttp and Cloud
// Storage have no more.
func GaveUpText(text string) bool {
	return strings.Contains(text, " giving up after ") && strings.Contains(text, " attempt(s)") ||
		strings.HasPrefix(text, "storage: retry ")
}

// nameOf returns the package and the name of the type of err, or of what it
// points to.
func nameOf(err error) (pkg, name string) {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath(), t.Name()
}
