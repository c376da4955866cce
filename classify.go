package backoff

import (
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
	"github.com/gobackoff/backoff/internal/fault"
)

// A Class is what the library needs to know of a failure. The classes are in
// order, from ClassUnknown to ClassPermanent: where parts of an error tree
// disagree, the greater class counts.
type Class uint8

const (
	// ClassUnknown says nothing. [Policy.Do] retries it, and the HTTP, gRPC and
	// SQL packages do not.
	ClassUnknown Class = iota
	// ClassNotSent is a failure that provably never reached the server, such as
	// a refused connection. Even an operation that is not idempotent may be
	// repeated.
	ClassNotSent
	// ClassRetryable is a transient failure.
	ClassRetryable
	// ClassThrottled is a server saying "too much", such as HTTP 429.
	ClassThrottled
	// ClassOverloaded is a server, or a proxy, saying "do not retry".
	ClassOverloaded
	// ClassPermanent is a failure that a retry cannot mend: the same call would
	// fail again.
	ClassPermanent
)

var classNames = [...]string{"unknown", "not sent", "retryable", "throttled", "overloaded", "permanent", "invalid"}

// String returns the name of the class in lower case.
func (c Class) String() string { return classNames[min(int(c), len(classNames)-1)] }

// Retryable reports whether a failure of this class may be retried: all but
// ClassOverloaded and ClassPermanent.
func (c Class) Retryable() bool { return c < ClassOverloaded }

// A Classifier sorts an error into a [Class]. It must be safe for concurrent
// use. ClassUnknown leaves the error to [DefaultClassifier].
//
// A Classifier does not see errors that are marked by [Permanent] or [OfClass].
// Except in a [Supervisor], it does not see what an inner policy, or another library's
// loop, gave up on.
type Classifier func(error) Class

// RetryIf returns a [Classifier] that retries exactly the errors that retryable
// accepts. Any func(error) bool of a client fits, such as storage.ShouldRetry
// or pgconn.SafeToRetry. The error that retryable gets may have a mark, such as
// that of [RetryAfter]: errors.Is and errors.As see through it, == needs
// [Cause]. RetryIf(nil) is nil.
//
// An attempt that AttemptTimeout ended is retried even if retryable refuses its
// context.DeadlineExceeded.
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

// Permanent marks err as permanent: no policy of this package tries again,
// however deep the mark is wrapped or joined, and however policies are nested.
// errors.Is, errors.As and the text see through the mark; == does not. A
// sentinel error may be marked once, where it is declared. Permanent(nil) is
// nil.
func Permanent(err error) error { return OfClass(err, ClassPermanent) }

// OfClass marks err as of class c, whatever a classifier says. Of nested marks
// the outermost counts. So OfClass(err, ClassRetryable) lets an outer policy
// retry what an inner one gave up on, and retries multiply. In joined errors
// the greatest [Class] of their marks counts. That is ClassNotSent only if all
// of them are marked so. OfClass(err, ClassUnknown) has no effect. OfClass(nil,
// c) is nil.
//
// If a server throttles and also says "do not retry", mark the error as
// ClassThrottled first, and then as ClassOverloaded: it is not retried, and a
// [Budget] gets ClassThrottled.
func OfClass(err error, c Class) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, class: c}
}

// Cause returns the error of the operation, without the marks and the [*Error]
// around it: for == and type switches. If the operation was never called, Cause
// returns the error of the context that ended the call, or else the Error. Any
// other error is returned as it is, such as an [*OpenError], and an error that
// wraps an Error or a mark.
func Cause(err error) error {
	for range errtree.Most {
		switch e := err.(type) {
		case *marked:
			err = e.err
		case *fault.Mark:
			err = e.Err
		case *Error:
			switch {
			case e == nil:
				return err
			case e.Last != nil:
				err = e.Last
			case e.Reason == ReasonDeadline || e.Reason == ReasonCanceled:
				return e.ContextError()
			default:
				return err
			}
		default:
			return err
		}
	}
	return err // an Error whose last error is itself
}

// marked is an error with what its operation says of it.
type marked struct {
	_ [0]func() // no ==

	err   error
	hint  hint  // wait that the server asked for
	class Class // class of err; ClassUnknown for a mark that says only when to retry

	atOnce   bool // whether AtOnce set the mark
	inferred bool // whether a policy set the mark, because its own classifier said so
}

// inferred marks err as permanent in the name of a policy, unless
// DefaultClassifier finds it permanent: then any loop would find the same.
func inferred(err error) error {
	if DefaultClassifier(err) == ClassPermanent {
		return err
	}
	return &marked{err: err, class: ClassPermanent, inferred: true}
}

func (m *marked) Error() string { return m.err.Error() }
func (m *marked) Unwrap() error { return m.err }

// DefaultClassifier sorts the errors of the standard library, and of clients
// whose errors say by a method what they mean. Anything else is ClassUnknown.
// nil is ClassPermanent.
//
//   - Permanent: an operation's own context.Canceled, certificate errors, names
//     that do not exist, most HTTP 4xx, SQLSTATEs such as those of the classes
//     22, 23, 28, 3D and 42, sql.ErrNoRows, codes of gRPC, Redis, MongoDB and Kafka that a retry
//     would get again, and what the loop of another library gave up on.
//   - Throttled: HTTP 429 and 529, throttling codes of AWS, SQLSTATE 53.
//   - Retryable: timeouts, resets, broken pipes, io.ErrUnexpectedEOF,
//     net.ErrClosed, HTTP 408, 425 and most 5xx, SQLSTATEs of deadlocks,
//     conflicts and lost connections.
//   - Not sent: refused connections, no route.
//
// The whole list is in docs/clients.md. In a tree of errors the more specific
// evidence counts, and of equally specific evidence the greater [Class]. The
// tree is "not sent" only if every branch is. At most 10,000 errors of a tree
// are read.
func DefaultClassifier(err error) Class {
	return judge(nil, err).class
}

// A failure is what the loop, and the error of a call, keep of an attempt that
// failed.
type failure struct {
	_ [0]func() // no ==

	class    Class      // class of the error
	hint     hint       // wait that the server asked for
	open     *OpenError // refusal of a breaker; nil if the attempt was made
	timedOut bool       // whether the policy's own attempt timeout ended it

	said fault.Fault // whose fault it is: in an Error, and in a verdict if a mark or a policy inside said so
}

// A verdict is what the error of one attempt says, with all that it wraps.
type verdict struct {
	_ [0]func() // no ==, which every program would have the code of
	failure

	err           error  // error that was read
	ended         error  // error of the caller's context when the attempt had failed
	persists      bool   // whether only the operation and Classify may end the call (Policy.persists)
	waits         bool   // whether a name that does not exist is not there yet: the call has any number of attempts, and an end
	marked        bool   // whether a mark, or a policy that gave up, set the class
	judged        bool   // whether a classifier of the policy's own set the class
	chosen        bool   // whether it retries an answer that the library takes as final
	gaveUp        bool   // whether a policy inside, or the loop of another library, gave up
	throttled     bool   // whether a mark below the one that counts says so
	atOnce        bool   // whether the operation asked for a retry without a wait
	outOfTime     *Error // error of a policy inside that had no time left
	innerTimedOut bool   // whether an attempt timeout further in ended it; read for a Budget only
	seen          int    // errors of the tree that were read
}

// judge returns what err says under a classifier.
func judge(classify Classifier, err error) (v verdict) {
	v.judge(classify, err)
	return v
}

// judge reads the marks, then asks the classifier, then looks for evidence. It
// fills in a new verdict: to return the struct by value would cost more than to
// compute it.
func (v *verdict) judge(classify Classifier, err error) {
	v.err = err
	if err == nil {
		v.class = ClassPermanent
		return
	}
	plain := isPlain(err)
	if !plain {
		v.read(err, false)
		if v.marked || v.gaveUp {
			return
		}
	}
	if classify != nil {
		v.class = classify(err)
		v.judged = v.class != ClassUnknown
	}
	if v.class <= ClassRetryable && !plain {
		found := Class(evidence.Of(err, lastOf, v.waits))
		switch {
		case v.judged:
			v.chosen = v.repeats(found)
		case !v.persists || found.Retryable(): // otherwise neither a mark nor Classify said so
			v.class = found
		}
	}
	if v.atOnce && !v.class.Retryable() {
		v.class = ClassRetryable
	}
}

// repeats reports whether a classifier, which retries the error, repeats an answer, given
// what the library finds in the error.
func (v *verdict) repeats(found Class) bool {
	return found == ClassPermanent && evidence.IsAnswer(v.err) || found == ClassUnknown && v.said == fault.Answered
}

// lastOf returns the last error of an [*Error], whose methods are for the loops
// of other libraries.
func lastOf(err error) (error, bool) {
	e, ok := err.(*Error)
	if !ok || e == nil || e.Last == nil {
		return nil, false
	}
	return e.Last, true
}

// isPlain reports whether nothing can be read from err. Most errors are plain,
// and to know that saves a dozen questions.
func isPlain(err error) bool {
	switch err.(type) {
	case *marked, *Error, interface{ RetryAfter() time.Duration }:
		return false
	}
	return evidence.None(err)
}

// read reads the marks in err's tree, and what servers asked for. Below a mark,
// other marks are overruled; what a server asked for still counts.
func (v *verdict) read(err error, overruled bool) {
	if v.seen++; v.seen > errtree.Most {
		return
	}
	if f, ok := fault.Said(err); ok {
		v.said = f
	}
	switch e := err.(type) {
	case *marked:
		v.read(e.err, v.readMark(e, overruled))
		return
	case *Error:
		v.readGivenUp(e, overruled)
		return
	case *OpenError: // its last error is of another call
		v.readRefusal(e, overruled)
		return
	default:
		if after, ok := evidence.RetryAfter(err); ok {
			v.hint = v.hint.longer(hint{after: after, given: true})
		}
		if !overruled && !v.persists && evidence.GaveUp(err) { // no mark: AttemptTimeout may have ended that loop
			v.class, v.gaveUp, overruled = ClassPermanent, true, true
		}
	}
	v.readWrapped(err, overruled)
}

// readMark reads one mark, and reports whether those below it are overruled.
func (v *verdict) readMark(m *marked, overruled bool) bool {
	v.hint, v.atOnce = v.hint.longer(m.hint), v.atOnce || m.atOnce
	switch {
	case overruled:
		v.throttled = v.throttled || m.class == ClassThrottled
	case m.class != ClassUnknown && !(m.inferred && v.persists):
		v.mark(m.class)
		return true
	}
	return overruled
}

// readGivenUp reads the error of a policy inside.
func (v *verdict) readGivenUp(e *Error, overruled bool) {
	switch {
	case e == nil: // returned by mistake
	case e.isFinal() && !overruled && !v.persists:
		v.mark(ClassPermanent)
		v.gaveUp = true
		if v.outOfTime = nil; e.Reason == ReasonDeadline {
			v.outOfTime = e
		}
		v.said = v.said.Around(e.failure.said)
	case e.Last != nil:
		atOnce := v.atOnce
		v.read(e.Last, overruled)
		v.atOnce = atOnce || v.atOnce && !e.isFinal() // the policy that gave up had its turn
	}
}

// readRefusal reads the refusal of a breaker inside. A mark as retryable around
// it says that the operation wants to wait for the circuit.
func (v *verdict) readRefusal(e *OpenError, overruled bool) {
	switch {
	case e == nil:
	case !overruled:
		v.mark(ClassPermanent)
		v.open = e
	case v.class == ClassRetryable:
		v.open = e
	}
	v.hint = v.hint.longer(hint{after: e.RetryAfter(), given: true})
}

// mark takes note of a mark. Of marks side by side the greatest class counts.
func (v *verdict) mark(c Class) {
	v.class = max(v.class, c)
	v.marked = true
}

// readWrapped reads what err wraps.
func (v *verdict) readWrapped(err error, overruled bool) {
	branches, inner := errtree.Unwrap(err)
	if inner != nil {
		v.read(inner, overruled)
	}
	marked, all := v.marked, true
	for _, inner := range branches {
		if inner != nil {
			v.marked = false
			v.read(inner, overruled)
			marked, all = marked || v.marked, all && v.marked
		}
	}
	if v.marked = marked; marked && !all && !overruled && v.class == ClassNotSent {
		v.class = ClassRetryable // the branch without a mark may have been sent
	}
}

// interruptedByContext reports whether the end of the caller's context
// interrupted the attempt. A permanent answer that the operation marked came in
// time.
func (v *verdict) interruptedByContext() bool {
	return !v.answered() || errtree.Is(v.err, v.ended)
}

// answered reports whether the operation marked the error as one that a retry
// does not mend.
func (v *verdict) answered() bool {
	return v.marked && !v.class.Retryable() && !v.gaveUp && v.open == nil
}

// fault says whose fault the failure is. This is the only place that decides that of
// an error.
func (v *verdict) fault() fault.Fault {
	class := v.classOfAnswer()
	switch {
	case v.open != nil:
		return fault.Refused
	case v.timedOut || v.innerTimedOut:
		return fault.Late
	case v.chosen || v.said == fault.Answered && class == ClassUnknown:
		return fault.Chosen
	case v.said != fault.Unknown && v.said != fault.Answered:
		return v.said
	case class == ClassPermanent && errtree.Is(v.err, context.Canceled): // the operation's own
		return fault.Left
	}
	return fault.OfClass(evidence.Class(class))
}

// result is what Budget.Done gets for an attempt that failed with this verdict.
func (v *verdict) result() Result {
	whose := v.fault()
	notSent := whose.Row().Budget == fault.Unmade
	return Result{
		Failed:     !notSent,
		NotSent:    notSent,
		Canceled:   v.ended != nil || whose == fault.Left,
		TimedOut:   v.timedOut || v.innerTimedOut,
		Class:      Class(whose.ClassFor(evidence.Class(v.classOfAnswer()))),
		RetryAfter: v.hint.after,
	}
}

// classOfAnswer returns what the class says of the service. A server that throttles
// may also say "do not retry". What a policy inside gave up on is no answer.
func (v *verdict) classOfAnswer() Class {
	switch {
	case v.class == ClassOverloaded && v.throttled:
		return ClassThrottled
	case v.class == ClassPermanent && v.gaveUp:
		return ClassUnknown
	}
	return v.class
}
