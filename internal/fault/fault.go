// Package fault says whose fault the end of an attempt is, and what each guard makes
// of that. Its table is the only place where that is decided.
package fault

import (
	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/evidence"
)

// A Fault says whose fault the end of an attempt is.
type Fault uint8

const (
	// Unknown counts as Failed: what nobody knows may be a failure of the service.
	Unknown Fault = iota
	// Failed blames the service.
	Failed
	// Answered blames nobody.
	Answered
	// Wrong blames the request: it would get the same answer again.
	Wrong
	// Chosen blames nobody: the program repeats an answer that the library takes
	// as final.
	Chosen
	// Own blames the program: nothing left it.
	Own
	// Left blames the caller: it went away, or its own body failed.
	Left
	// Quota blames one caller of several, whose credential is throttled or used up.
	Quota
	// Throttled blames the load: the service says "too much".
	Throttled
	// Overloaded blames the load: the service says "do not retry".
	Overloaded
	// Late blames the time: there was no answer in it.
	Late
	// Unreached blames the way to the service.
	Unreached
	// Refused blames a guard, which did not let the attempt be made.
	Refused
)

// Says is what one guard makes of a Fault.
type Says uint8

const (
	Nothing = Says(circuit.None)      // nothing about the service
	Answer  = Says(circuit.Good)      // the service works
	TooMuch = Says(circuit.Throttled) // the service wants fewer calls
	Slow    = Says(circuit.Hung)      // the service did not answer in time
	Failure = Says(circuit.Bad)       // the service fails
	Unsent  = Says(circuit.Unsent)    // the service was not reached, and to try again costs it nothing
	Unmade  = Failure + 1             // there was no attempt; what was granted for it goes back
)

// A Row is what all guards make of one Fault.
type Row struct {
	Breaker, Budget, Pacer, Line, Hedge Says
}

// Table has a Row for each Fault. It stands in docs/architecture.md, too.
var Table = [...]Row{
	Unknown:    {Failure, Failure, Nothing, Failure, Failure},
	Failed:     {Failure, Failure, Nothing, Failure, Failure},
	Answered:   {Answer, Answer, Answer, Answer, Answer},
	Wrong:      {Answer, Answer, Answer, Answer, Answer},
	Chosen:     {Answer, Answer, Answer, Answer, Failure},
	Own:        {Nothing, Unmade, Unmade, Nothing, Nothing},
	Left:       {Nothing, Nothing, Nothing, Nothing, Nothing},
	Quota:      {Nothing, Failure, Nothing, TooMuch, TooMuch},
	Throttled:  {TooMuch, Failure, TooMuch, TooMuch, TooMuch},
	Overloaded: {TooMuch, Failure, Nothing, Failure, TooMuch},
	Late:       {Slow, Failure, Slow, Failure, Failure},
	Unreached:  {Unsent, Failure, Nothing, Unsent, Failure},
	Refused:    {Nothing, Unmade, Unmade, Unmade, Unmade},
}

// words are apart from the Table, so that a program that prints none has none.
var words = [...]string{
	Unknown: "failed", Failed: "failed", Unreached: "failed",
	Answered: "success",
	Wrong:    "permanent", Chosen: "permanent",
	Own: "not sent", Refused: "not sent",
	Left:  "canceled",
	Quota: "throttled", Throttled: "throttled", Overloaded: "throttled",
	Late: "timeout",
}

// Word returns the Fault in a word for logs and metrics.
func (f Fault) Word() string { return words[f] }

// Row returns the row of the Fault.
func (f Fault) Row() *Row { return &Table[f] }

// Score returns what the Fault says to a circuit, to which no Fault is Unmade.
func (f Fault) Score() circuit.Score { return circuit.Score(f.Row().Breaker) }

// OfClass returns whose fault a failure is of which only the class is known.
func OfClass(c evidence.Class) Fault {
	if int(c) < len(ofClass) {
		return ofClass[c]
	}
	return Unknown
}

var ofClass = [...]Fault{
	evidence.Retryable: Failed, evidence.NotSent: Unreached,
	evidence.Throttled: Throttled, evidence.Overloaded: Overloaded, evidence.Permanent: Wrong,
}

// ClassFor returns the class that a backoff.Result has of a failure, given that of the error,
// which a mark may have set.
func (f Fault) ClassFor(c evidence.Class) evidence.Class {
	switch {
	case f == Own:
		return evidence.NotSent
	case f == Failed && c == evidence.Permanent:
		return evidence.Unknown
	case f.Row().Budget == Answer:
		return evidence.Permanent
	}
	return c
}

// Around returns the Fault of an error around that of a policy which gave up. Chosen and Own
// stay what they were inside.
func (f Fault) Around(inner Fault) Fault {
	if f == Unknown && (inner == Chosen || inner == Own) {
		return inner
	}
	return f
}

// Of returns whose fault it is, given what a backoff.Result says. An attempt that was
// not made, with a failure that was not sent, never left the program.
func Of(notSent, canceled, timedOut, failed bool, c evidence.Class) Fault {
	if !notSent && !canceled && !timedOut && !failed { // inlined, for most attempts succeed
		return Answered
	}
	return ofFailure(notSent, canceled, timedOut, failed, c)
}

// ofFailure is Of for an attempt that did not just succeed.
func ofFailure(notSent, canceled, timedOut, failed bool, c evidence.Class) Fault {
	switch {
	case notSent && c == evidence.NotSent:
		return Own
	case notSent:
		return Refused
	case canceled:
		return Left
	case timedOut:
		return Late
	case !failed:
		return Answered
	}
	return OfClass(c)
}

// A Mark says of an error whose fault it is, where the error itself does not tell. Modules
// that do not see this package have an error with a method: see [Said].
type Mark struct {
	_ [0]func() // no ==, which every program would have the code of

	Err   error
	Fault Fault
}

// As marks err. Answered means that err is about an answer. What err says of the service
// by itself, such as that it wants fewer calls, counts nevertheless.
func As(err error, f Fault) error { return &Mark{Err: err, Fault: f} }

// Unmarked returns err without a Mark around it.
func Unmarked(err error) error {
	if m, ok := err.(*Mark); ok {
		return m.Err
	}
	return err
}

// Said returns the Fault that err alone names, without what it wraps.
func Said(err error) (f Fault, ok bool) {
	switch e := err.(type) {
	case *Mark:
		return e.Fault, true
	case interface{ BackoffFault() string }:
		switch e.BackoffFault() {
		case "own":
			return Own, true
		case "answered":
			return Answered, true
		}
	}
	if evidence.InVain(err) {
		return Own, true
	}
	return 0, false
}

// Error returns the text of the error.
func (m *Mark) Error() string { return m.Err.Error() }

// Unwrap returns the error.
func (m *Mark) Unwrap() error { return m.Err }
