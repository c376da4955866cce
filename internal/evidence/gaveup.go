package evidence

import (
	"reflect"
	"strings"
)

// GaveUp reports whether err is the one by which a loop of another library says
// that it has made all the attempts that it would make. It goes by name, as
// isType does, and by text where a library has no type for it. A loop that
// returns the last error as it is cannot be known.
func GaveUp(err error) bool {
	pkg, name := nameOf(err)
	switch {
	case name == "wrapError" && pkg == "fmt":
		return GaveUpText(err.Error()) || strings.HasPrefix(err.Error(), "storage: retry ") // Cloud Storage
	case name == "errorString" && pkg == "errors":
		return GaveUpText(err.Error())
	}
	return isEnd(pkg, name)
}

// GaveUpText is GaveUp for the text of an error: go-retryablehttp has no more.
func GaveUpText(text string) bool {
	before, _, found := strings.Cut(text, " attempt(s)")
	return found && strings.Contains(before, " giving up after ")
}

// isEnd knows the errors of loops that gave up.
func isEnd(pkg, name string) bool {
	switch name {
	case "MaxAttemptsError":
		return pkg == "github.com/aws/aws-sdk-go-v2/aws/retry"
	case "QuotaExceededError":
		return pkg == "github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	case "ExceededError":
		return pkg == "github.com/failsafe-go/failsafe-go/retrypolicy"
	case "RetryError":
		return strings.HasPrefix(pkg, "github.com/cenkalti/backoff/") // from v6
	case "Error":
		return strings.HasPrefix(pkg, "github.com/avast/retry-go")
	case "errInterrupted":
		return pkg == "k8s.io/apimachinery/pkg/util/wait"
	}
	return false
}

// isMark knows the marks that say to such a loop not to try again.
func isMark(pkg, name string) bool {
	switch name {
	case "PermanentError", "permanent":
		return strings.HasPrefix(pkg, "github.com/cenkalti/backoff/")
	case "unrecoverableError":
		return strings.HasPrefix(pkg, "github.com/avast/retry-go")
	}
	return false
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
