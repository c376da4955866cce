package control

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gobackoff/backoff"
)

// What an [Override] changes.
const (
	// Retries of policies are switched [Off] and [On]. A call whose retries are
	// off makes one attempt, for which it still waits as its Budget
	// says. A [Handle.Supervise] begins no new run.
	Retries = "retries"
	// Spec replaces settings of a policy. To is a JSON object in the form of
	// package spec. Each member that is there replaces the setting of that
	// name; all others stay as the program has them, and so does what is code.
	// A budget in it is a new one, which all policies of the name share;
	// without one, the budget of the program goes on as it is, and does so
	// again after the override. The name must be left out or the same, and
	// there must be no breaker. Spec needs the name of a policy.
	//
	// It cannot let a policy repeat what the program does not. The idempotency
	// must be "nonIdempotent" or that of the program, unless that is
	// [backoff.Idempotent]. Without one, no class gets retries for which the
	// program allows one attempt. A policy of the name that is registered later,
	// and for which the spec would do that, stays as the program has it.
	Spec = "spec"
	// Hedges are switched [Off] and [On]. A hedged call without hedges makes
	// one attempt.
	Hedges = "hedges"
	// Breakers are put in a mode, which To names: "enforce", "observe",
	// "forced open" or "forced closed". See [backoff.BreakerMode]. With each change of
	// mode, also at the end of the override, a breaker forgets what it has
	// counted, and starts closed unless it is forced open. The [*backoff.OpenError]
	// of one that is forced open has neither a Last error nor a RetryAfter; the
	// Trigger of its transition is ["manual"].
	Breakers = "breakers"
)

// The values of To for [Retries] and [Hedges].
const (
	Off = "off"
	// On is for a name, while all others are switched off.
	On = "on"
)

// All is the Name that means all that is registered. It is not "", so that a
// name left out does not mean all.
const All = "*"

// A Target is something that can be overridden.
type Target struct {
	// What is [Retries], [Spec], [Hedges] or [Breakers].
	What string `json:"what"`
	// Name is that of the policy, the hedge, the breaker or the Services, or
	// [All].
	Name string `json:"name"`
	// Key is one of the keys of a Services. "" means all.
	Key string `json:"key,omitzero"`
}

// String returns what and whose.
func (t Target) String() string {
	if t.Name == All {
		return t.What + " of all"
	}
	return strings.TrimSuffix(t.What+" of "+t.Name+" "+t.Key, " ")
}

// An Override says how a [Target] behaves for a time, in place of what the
// program says.
type Override struct {
	Target
	// To is the new setting, whose form depends on What.
	To string `json:"to"`
	// Who wants it and why. Both are required, as one line each.
	Who string `json:"who"`
	Why string `json:"why"`
	// For is how long it holds. 0 means an hour. A negative For means until it
	// is cleared, which a Panel allows only if its MaxFor is negative. An
	// override that expires while the machine is suspended ends within
	// a minute after that. One ends early if the clock is set ahead.
	For time.Duration `json:"-"`
	// Since and Until are set by the [Panel]. Until is zero if there is no
	// end.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
}

const (
	defaultFor    = time.Hour
	defaultMaxFor = 24 * time.Hour

	maxText = 200
	maxSpec = 64 << 10
)

// check returns what is wrong with the override, whatever is registered.
func (o *Override) check(maxFor time.Duration) error {
	if err := checkPerson(o.Who, o.Why); err != nil {
		return err
	}
	maxFor = cmp.Or(maxFor, defaultMaxFor)
	switch {
	case maxFor > 0 && (o.For < 0 || o.For > maxFor):
		return problem("for", "is "+o.For.String()+", want at most "+maxFor.String()+" (Panel.MaxFor)")
	case o.Key != "" && o.What != Breakers:
		return problem("key", "is "+quote(o.Key)+", want none: only breakers have keys")
	case o.Key != "" && o.Name == All:
		return problem("name", "is "+quote(All)+", want the Services that have the key "+quote(o.Key))
	}
	return o.checkTo()
}

// checkTo returns what is wrong with To. Of a spec it checks the length only.
func (o *Override) checkTo() error {
	settings, known := settingsOf[o.What]
	switch {
	case !known:
		return problem("what", "is "+quote(o.What)+", want one of retries, spec, hedges, breakers")
	case o.What == Spec && len(o.To) > maxSpec:
		return problem("to", "has "+strconv.Itoa(len(o.To))+" bytes, want at most "+strconv.Itoa(maxSpec))
	case o.What != Spec && !slices.Contains(settings, o.To):
		return problem("to", "is "+quote(o.To)+", want one of "+strings.Join(settings, ", "))
	}
	return nil
}

// settingsOf are the values that To may have, by What. Those of a spec cannot be
// listed.
var settingsOf = map[string][]string{
	Retries:  {Off, On},
	Spec:     {},
	Hedges:   {Off, On},
	Breakers: {"enforce", "observe", "forced open", "forced closed"},
}

// modes are those of breakers, in the order of their names.
var modes = [...]backoff.BreakerMode{backoff.ModeEnforce, backoff.ModeObserve, backoff.ModeForcedOpen, backoff.ModeForcedClosed}

// checkPerson returns what is wrong with who wants something and why.
func checkPerson(who, why string) error {
	return cmp.Or(checkLine("who", who, "the name of a person"), checkLine("why", why, "a reason"))
}

// checkLine returns what is wrong with a text that must be there, and be one
// line, so that it cannot pass for another one in a log.
func checkLine(field, text, want string) error {
	length := utf8.RuneCountInString(text)
	switch {
	case strings.TrimSpace(text) == "":
		return problem(field, "is empty, want "+want)
	case length > maxText:
		return problem(field, "has "+strconv.Itoa(length)+" characters, want at most "+strconv.Itoa(maxText))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return problem(field, "is "+quote(text)+", want one line of text")
	}
	return nil
}

// problem returns the error of a field, named as in JSON.
func problem(field, text string) error { return errors.New("backoff: control: " + field + " " + text) }

// quote returns the beginning of a text as it is printed in an error.
func quote(text string) string {
	const most = 64
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strconv.Quote(text)
}

// mode returns the mode that To names. There is one, as check has found.
func (o *Override) mode() backoff.BreakerMode { return modes[slices.Index(settingsOf[Breakers], o.To)] }

// What a [Change] is.
const (
	// ChangeSet: the override holds from now on.
	ChangeSet = "set"
	// ChangeReplaced: it takes the place of an earlier one.
	ChangeReplaced = "replaced"
	// ChangeCleared: it was ended before its time.
	ChangeCleared = "cleared"
	// ChangeExpired: it has expired.
	ChangeExpired = "expired"
)

// A Change is what the Observer of a [Panel] gets. It is a [slog.LogValuer]:
//
//	panel.Observer = func(ctx context.Context, c control.Change) {
//		slog.WarnContext(ctx, "override", "control", c)
//	}
type Change struct {
	// Kind is [ChangeSet], [ChangeReplaced], [ChangeCleared] or
	// [ChangeExpired].
	Kind     string
	Override Override
	// Who made the change and why. If the override has expired, they are its
	// own.
	Who, Why string
}

// LogValue returns the change as a group: change, what, name, key, to, who, why
// and until.
func (c Change) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("change", c.Kind), slog.String("what", c.Override.What), slog.String("name", c.Override.Name)}
	if c.Override.Key != "" {
		attrs = append(attrs, slog.String("key", c.Override.Key))
	}
	attrs = append(attrs, slog.String("to", c.Override.To), slog.String("who", c.Who), slog.String("why", c.Why))
	if !c.Override.Until.IsZero() {
		attrs = append(attrs, slog.Time("until", c.Override.Until))
	}
	return slog.GroupValue(attrs...)
}
