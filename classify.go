package backoff

import (
	"context"
	"io"
	"reflect"
	"strings"
	"syscall"
	"time"
	"unsafe"

	codes "github.com/gobackoff/backoff/internal/evidence"
)

// A Class is what the library needs to know of a failure. The classes are ordered:
// where parts of an error tree disagree, the later one stands.
type Class uint8

const (
	// ClassUnknown says that nothing is known. [Policy.Do] retries it, because
	// calling Do is the statement that the operation may fail transiently; the
	// HTTP, gRPC and SQL layers do not.
	ClassUnknown Class = iota
	// ClassNotSent is a failure that provably never reached the server, such as a
	// refused connection. It may be repeated even where the operation is not
	// idempotent.
	ClassNotSent
	// ClassRetryable is a transient failure.
	ClassRetryable
	// ClassThrottled is a server saying "too much", such as HTTP 429.
	ClassThrottled
	// ClassOverloaded is a server, or something on the way, saying "do not retry".
	ClassOverloaded
	// ClassPermanent is a definitive answer: repeating the call repeats it.
	ClassPermanent
)

var classNames = [...]string{"unknown", "not sent", "retryable", "throttled", "overloaded", "permanent"}

// String returns the name of the class in lower case.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "invalid"
}

// Retryable reports whether a failure of this class may be tried again: all but
// ClassOverloaded and ClassPermanent.
func (c Class) Retryable() bool { return c < ClassOverloaded }

// A Classifier sorts an error. ClassUnknown means "no opinion" and leaves the
// error to [DefaultClassifier]. It must be safe for concurrent use.
//
// Markers come first: an error marked by [Permanent] or [WithClass] is not shown to the
// classifier, and neither is what a policy of this package gave up on.
type Classifier func(error) Class

// RetryIf returns a [Classifier] that retries exactly the errors that retryable
// accepts. Any func(error) bool that a client library offers fits, such as
// storage.ShouldRetry or pgconn.SafeToRetry. A nil one is no opinion, as a nil Classifier is.
func RetryIf(retryable func(error) bool) Classifier {
	if retryable == nil {
		return nil
	}
	return func(err error) Class {
		if err != nil && retryable(err) {
			return ClassRetryable
		}
		return ClassPermanent
	}
}

// OnCode returns a [Classifier] that retries exactly the errors whose code, as told
// by of, is among codes. It fits any code without importing its package:
//
//	backoff.OnCode(status.Code, codes.Unavailable, codes.Aborted)
func OnCode[C comparable](of func(error) C, codes ...C) Classifier {
	return RetryIf(func(err error) bool {
		code := of(err)
		for _, c := range codes {
			if c == code {
				return true
			}
		}
		return false
	})
}

// Permanent marks err as final: no policy of this package tries again, however
// deep the mark is wrapped or joined, and however policies are nested. The mark
// shows neither in the text nor to errors.Is and errors.As, but to ==. Permanent(nil) is nil.
//
// A sentinel may be marked once, where it is declared, and then costs nothing.
func Permanent(err error) error { return WithClass(err, ClassPermanent) }

// Mark says of which class err is, above whatever a classifier would say. Of marks
// around one another the outermost stands: it was made by who knew most. So
// WithClass(err, ClassRetryable) lets an outer policy retry what an inner one gave up
// on, the one way to make retries multiply. Of marked errors joined side by side
// the greatest [Class] stands. WithClass(err, ClassUnknown) says nothing. WithClass(nil, c) is nil.
func WithClass(err error, c Class) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, class: c}
}

// marked is an error with what its operation says about it.
type marked struct {
	err   error
	hint  hint // where class is ClassUnknown there is nothing else
	class Class

	inferred bool // from a classifier, by a policy: the operation did not say so
}

// inferred marks err as permanent on a policy's word.
func inferred(err error) error {
	return &marked{err: err, class: ClassPermanent, inferred: true}
}

func (m *marked) Error() string { return m.err.Error() }
func (m *marked) Unwrap() error { return m.err }

// DefaultClassifier sorts what the standard library, and the clients that let
// their errors speak by a method, report. Everything it does not know is
// ClassUnknown; nil is ClassPermanent, as success needs no retry.
//
//   - Permanent: an operation's own context.Canceled, certificate errors
//     (crypto/x509), names that do not exist, NonRetriable(), RetryableError() and
//     CanceledError() as the AWS SDK means them, most HTTP 4xx by
//     HTTPStatusCode() or HTTPCode(), SQLSTATEs of the classes 22, 23, 28 and 42.
//   - Throttled: HTTP 429, the throttling codes of AWS by ErrorCode(), SQLSTATE 53.
//   - Retryable: timeouts (Timeout() true), Temporary() true, resets, broken pipes,
//     io.ErrUnexpectedEOF and an io.EOF inside a *url.Error, net.ErrClosed, the
//     statuses 408, 425 and most 5xx, SQLSTATE 40001, 40P01, 55P03, 57P0x and 08,
//     MongoDB's labels for errors that may be retried, SafeToRetry() true.
//   - Unsent: refused connections, no route.
//
// In a tree of errors, as errors.Join makes them, the more specific evidence
// stands, and among equals the greater [Class]; but it is unsent only where every branch is.
func DefaultClassifier(err error) Class {
	return judge(nil, err).class
}

// verdict is all that the loop wants to know of an error.
type verdict struct {
	class  Class
	marked bool // by its operation, or by a policy that gave up
	gaveUp bool // by a policy
	ended  bool // of these, because it had no time left
	open   *OpenError
	hint   hint
}

func judge(classify Classifier, err error) (v verdict) {
	v.judge(classify, err)
	return v
}

// judge asks the marks, then the classifier, then the evidence. It fills in a verdict that
// is zero; to return one to a loop that keeps it costs more than to come to it.
func (v *verdict) judge(classify Classifier, err error) {
	if err == nil {
		v.class = ClassPermanent
		return
	}
	mute := silent(err)
	if !mute {
		v.read(err, false)
		if v.marked {
			return
		}
	}
	if classify != nil {
		v.class = classify(err)
	}
	if v.class == ClassUnknown && !mute {
		v.class = examine(err).class
	}
}

// silent reports whether there is nothing to be read from err. Most errors are
// silent, and this costs one look where everything below costs a dozen.
func silent(err error) bool {
	if w := wordsOf(err); w.kind == wordsOf(io.EOF).kind { // as most sentinels: what errors.New makes
		return w.value != wordsOf(context.Canceled).value && w.value != wordsOf(io.ErrUnexpectedEOF).value
	}
	switch err.(type) {
	case *marked, *Error, syscall.Errno,
		interface{ Unwrap() error }, interface{ Unwrap() []error }, interface{ RetryAfter() time.Duration },
		speaker0, speaker1, speaker2, speaker3, speaker4, speaker5, speaker6, speaker7, speaker8, speaker9, speaker10, speaker11:
		return false
	}
	return err != context.Canceled && err != io.ErrUnexpectedEOF && reflect.TypeOf(err).Kind() == reflect.Pointer
}

// words are what an error is made of. To compare them takes a call less than to compare
// the errors, for each of those that are compared. Where one type has two kinds, silent
// goes the long way to the same answer.
type words struct{ kind, value unsafe.Pointer }

func wordsOf(err error) words { return *(*words)(unsafe.Pointer(&err)) }

// read collects the marks and hints of err's tree. Below a mark, other marks are
// overruled, but their hints still count.
func (v *verdict) read(err error, overruled bool) {
	switch e := err.(type) {
	case *marked:
		if e.class != ClassUnknown && !overruled {
			v.mark(e.class)
			overruled = true
		}
		v.hint = v.hint.longer(e.hint)
		v.read(e.err, overruled)
	case *Error:
		if e.final() && !overruled {
			v.mark(ClassPermanent)
			v.gaveUp = true
			v.ended = e.Reason == ReasonDeadline
		} else if e.Last != nil {
			v.read(e.Last, overruled)
		}
	case *OpenError: // its last error is of another call
		if !overruled {
			v.mark(ClassPermanent)
			v.open = e
		}
		v.hint = v.hint.longer(hint{after: e.RetryAfter(), given: true})
	case interface{ RetryAfter() time.Duration }:
		v.hint = v.hint.longer(hint{after: max(0, e.RetryAfter()), given: true})
		v.descend(err, overruled)
	default:
		v.descend(err, overruled)
	}
}

func (v *verdict) mark(c Class) {
	v.class = max(v.class, c)
	v.marked = true
}

func (v *verdict) descend(err error, overruled bool) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			v.read(inner, overruled)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if inner != nil {
				v.read(inner, overruled)
			}
		}
	}
}

// evidence is a class and how much it proves.
type evidence struct {
	class    Class
	strength int
}

const (
	circumstantial = 1 + iota // a timeout, a reset, a status
	specific                  // a code that names the very failure
	conclusive                // the error says so itself
)

func (a evidence) or(b evidence) evidence {
	if b.strength > a.strength || b.strength == a.strength && b.class > a.class {
		return b
	}
	return a
}

// examine walks err's tree for evidence.
func examine(err error) evidence {
	switch e := err.(type) {
	case *Error: // what it says of itself is for the loops of others
		if e.Last != nil {
			return examine(e.Last)
		}
	case interface{ Unwrap() error }:
		found := testify(err)
		inner := e.Unwrap()
		if inner == nil {
			return found
		}
		if inner == io.EOF && isType(err, "net/url", "Error") {
			found = found.or(evidence{ClassRetryable, circumstantial})
		}
		found = found.or(examine(inner))
		if found.class == ClassNotSent && connected(err) {
			found.class = ClassRetryable
		}
		return found
	case interface{ Unwrap() []error }:
		return examineAll(testify(err), e.Unwrap())
	}
	return testify(err)
}

// examineAll takes the strongest evidence of a tree's branches. That nothing was sent is
// proved only where every branch says so.
func examineAll(found evidence, branches []error) evidence {
	unsent := true
	for _, inner := range branches {
		if inner != nil {
			e := examine(inner)
			unsent = unsent && e.class == ClassNotSent
			found = found.or(e)
		}
	}
	if found.class == ClassNotSent && !unsent {
		found.class = ClassRetryable
	}
	return found
}

// testify reads one error, without what it wraps.
func testify(err error) evidence {
	switch err {
	case context.Canceled:
		return evidence{ClassPermanent, conclusive}
	case context.DeadlineExceeded, io.ErrUnexpectedEOF:
		return evidence{ClassRetryable, circumstantial}
	}
	switch e := err.(type) {
	case syscall.Errno:
		return errnoEvidence(e)
	case speaker0, speaker1, speaker2, speaker3, speaker4, speaker5, speaker6, speaker7, speaker8, speaker9, speaker10, speaker11:
		return interview(err)
	}
	if reflect.TypeOf(err).PkgPath() == "crypto/x509" {
		return evidence{ClassPermanent, conclusive}
	}
	return evidence{}
}

// The methods by which errors of other libraries speak for themselves. They are
// asked for all at once, because most errors have none of them.
type (
	speaker0  interface{ NonRetriable() }             // azcore
	speaker1  interface{ RetryableError() bool }      // AWS SDK
	speaker2  interface{ CanceledError() bool }       // AWS SDK
	speaker3  interface{ SafeToRetry() bool }         // pgx
	speaker4  interface{ SQLState() string }          // pgx, lib/pq
	speaker5  interface{ ErrorCode() string }         // AWS SDK
	speaker6  interface{ HTTPStatusCode() int }       // AWS SDK
	speaker7  interface{ HTTPCode() int }             // gax
	speaker8  interface{ HasErrorLabel(string) bool } // MongoDB
	speaker9  interface{ Timeout() bool }             // net.Error
	speaker10 interface{ Is(error) bool }             // "I am context.Canceled"
	speaker11 interface{ Temporary() bool }           // net.Error, once
)

// interview asks an error that has at least one of the methods.
func interview(err error) evidence {
	return selfReport(err).or(codeReport(err)).or(networkReport(err))
}

func selfReport(err error) evidence {
	var found evidence
	if _, ok := err.(speaker0); ok {
		found = evidence{ClassPermanent, conclusive}
	}
	if e, ok := err.(speaker1); ok {
		if e.RetryableError() {
			found = found.or(evidence{ClassRetryable, specific})
		} else {
			found = evidence{ClassPermanent, conclusive}
		}
	}
	if e, ok := err.(speaker2); ok && e.CanceledError() {
		found = evidence{ClassPermanent, conclusive}
	}
	if e, ok := err.(speaker3); ok && e.SafeToRetry() {
		found = found.or(evidence{ClassRetryable, conclusive}) // not unsent: pgx says so of statements that ran
	}
	if e, ok := err.(speaker10); ok && e.Is(context.Canceled) {
		found = evidence{ClassPermanent, conclusive}
	}
	return found
}

func codeReport(err error) evidence {
	var found evidence
	if e, ok := err.(speaker4); ok {
		found = found.or(stateEvidence(e.SQLState()))
	}
	if e, ok := err.(speaker5); ok {
		found = found.or(evidence{awsCodes[e.ErrorCode()], specific}.unlessUnknown())
	}
	if e, ok := err.(speaker6); ok { // 0 where no answer came
		found = found.or(statusEvidence(e.HTTPStatusCode()))
	}
	if e, ok := err.(speaker7); ok { // -1 where the answer was not HTTP
		found = found.or(statusEvidence(e.HTTPCode()))
	}
	if e, ok := err.(speaker8); ok {
		if e.HasErrorLabel("TransientTransactionError") || e.HasErrorLabel("RetryableWriteError") || e.HasErrorLabel("RetryableError") {
			found = found.or(evidence{ClassRetryable, specific})
		}
	}
	return found
}

func (a evidence) unlessUnknown() evidence {
	if a.class == ClassUnknown {
		return evidence{}
	}
	return a
}

// networkReport reads errors shaped like net.Error. Temporary is deprecated, but
// part of the contract of the Cloud Storage clients: true counts, false does not.
func networkReport(err error) evidence {
	timeout, ok := err.(speaker9)
	temporary, ok2 := err.(speaker11)
	switch {
	case ok && timeout.Timeout(), ok2 && temporary.Temporary():
		return evidence{ClassRetryable, circumstantial}
	case isType(err, "net", "DNSError"):
		if missing := field(err, "IsNotFound"); missing.Kind() == reflect.Bool && missing.Bool() {
			return evidence{ClassPermanent, specific}
		}
	case isType(err, "internal/poll", "errNetClosing"): // net.ErrClosed
		return evidence{ClassRetryable, circumstantial}
	}
	return evidence{}
}

// connected reports whether err is of a connection that was up. A router's word that
// its peer cannot be reached may then come after the request was sent.
func connected(err error) bool {
	if !isType(err, "net", "OpError") {
		return false
	}
	op := field(err, "Op")
	return op.Kind() == reflect.String && op.String() != "dial" && op.String() != "proxyconnect"
}

// field returns a field of the struct that err points to. It is FieldByName, which would
// add 8 KiB to every program.
func field(err error, name string) reflect.Value {
	s := reflect.ValueOf(err).Elem()
	for i := range s.NumField() {
		if s.Type().Field(i).Name == name {
			return s.Field(i)
		}
	}
	return reflect.Value{}
}

// isType knows a type of a package that is not imported here, because its weight
// would be carried by every program that retries anything.
func isType(err error, pkg, name string) bool {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		if reflect.ValueOf(err).IsNil() {
			return false
		}
		t = t.Elem()
	}
	return t.Name() == name && t.PkgPath() == pkg
}

// statusEvidence tells what an HTTP status means. It knows nothing of those that are
// no failure.
func statusEvidence(code int) evidence {
	return evidence{Class(codes.Status(code)), circumstantial}.unlessUnknown()
}

// stateEvidence sorts a SQLSTATE. Class 08 may have reached the server, so it is
// retryable only, not unsent. Source: PostgreSQL, appendix A.
func stateEvidence(state string) evidence {
	switch state {
	case "40001", "40P01", "55P03", "57P01", "57P02", "57P03", "57P05":
		return evidence{ClassRetryable, specific}
	}
	if len(state) != 5 {
		return evidence{}
	}
	switch state[:2] {
	case "08":
		return evidence{ClassRetryable, specific}
	case "53":
		return evidence{ClassThrottled, specific}
	case "0A", "21", "22", "23", "25", "26", "28", "2D", "3D", "3F", "42", "44":
		return evidence{ClassPermanent, specific}
	}
	return evidence{}
}

// awsCodes are the error codes the AWS SDKs retry. Source: AWS SDKs and Tools
// Reference Guide, "Retry behavior".
var awsCodes = func() map[string]Class {
	codes := map[string]Class{
		"RequestTimeout":          ClassRetryable,
		"RequestTimeoutException": ClassRetryable,
	}
	for code := range strings.FieldsSeq(`
		Throttling ThrottlingException ThrottledException RequestThrottledException
		TooManyRequestsException ProvisionedThroughputExceededException
		TransactionInProgressException RequestLimitExceeded BandwidthLimitExceeded
		LimitExceededException RequestThrottled SlowDown PriorRequestNotComplete
		EC2ThrottledException`) {
		codes[code] = ClassThrottled
	}
	return codes
}()
