// Package control changes policies, hedges and breakers while the program runs:
// the person on call switches the retries of one policy off, gives it another
// spec, or forces a breaker open.
//
//	var panel control.Panel
//
//	var searching = panel.Policy(backoff.Policy{Name: "search"})
//
//	err := searching.Do(ctx, search)
//
//	err := panel.Set(ctx, control.Override{
//		Target: control.Target{What: control.Retries, Name: "search"},
//		To:     control.Off,
//		Who:    "ada",
//		Why:    "shard 7 is overloaded",
//	})
//
// For an upstream over HTTP, the handle is the Control of its client:
//
//	client := &http.Client{Transport: &backoffhttp.Transport{Control: searching}}
//
// A change holds for the calls that begin after it. Only what was registered
// with a [Panel] can be changed: a policy has to be used by its [Handle]. Give
// each upstream a policy of its own name, so that each can be switched by
// itself. Every [Override] ends by itself, after an hour unless it says
// otherwise, and the Observer of the panel gets every change, with who wanted it
// and why. Package controlhttp serves a panel over HTTP, so that the person on
// call needs no new program.
//
// A panel is that of one process: make a change in each process of a service.
// An override ends with its process.
//
// This is a package of its own because it reads specs, and so links
// encoding/json and package limit.
package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/inorder"
	"github.com/gobackoff/backoff/internal/limits"
)

// A Panel holds what can be changed while the program runs, and the overrides
// in force. An override for a name takes precedence over one for all, and one
// for a key over one for a name. An override takes the place of an earlier one
// of the same [Target].
//
// The zero value is ready to use. A Panel must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use.
type Panel struct {
	_ [0]func() // no unkeyed literals, no ==

	// Observer gets every change, in order, one at a time, with no lock
	// held, on a goroutine of its own. It may call the panel. Set and Clear
	// wait for it, unless it is still busy with an earlier change; the change
	// itself does not. nil means none.
	Observer func(context.Context, Change)
	// MaxFor is the longest time that an override may hold. 0 means 24 hours. A
	// negative MaxFor means no limit: then there are overrides without an end.
	MaxFor time.Duration

	mu            inorder.Mutex // breakers are forced after its Unlock
	targets       []target
	overrides     map[Target]*active
	notifications inorder.Mutex // the Observer is called after its Unlock
}

// A target is a handle, a hedge or breakers.
type target struct {
	name  string
	what  []string        // what of it can be overridden
	base  *backoff.Policy // of a handle; nil for the others
	keys  func() []string // of a Services; noKeys for the others
	apply func(*Panel)    // applies the overrides in force, under the lock of the panel
}

func noKeys() []string { return nil }

// active is an override in force.
type active struct {
	Override
	spec  *change     // for Spec
	timer *time.Timer // nil if there is no end
}

// unlock unlocks the panel, forces breakers, and calls the Observer with the
// changes. An Observer that hangs keeps no breaker from being forced.
func (p *Panel) unlock() {
	p.mu.Unlock()
	p.notifications.Lock()
	defer p.notifications.Unlock()
}

// register adds a target, which begins with the overrides in force for all.
func (p *Panel) register(t target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = append(p.targets, t)
	t.apply(p)
}

// find returns the override in force for a target, or nil.
func (p *Panel) find(what string, name, key string) *active {
	for _, t := range [...]Target{{what, name, key}, {what, name, ""}, {What: what, Name: All}} {
		if a := p.overrides[t]; a != nil {
			return a
		}
	}
	return nil
}

// off reports whether something is switched off.
func (p *Panel) off(what string, name string) bool {
	a := p.find(what, name, "")
	return a != nil && a.To == Off
}

// Set makes an override hold from now on. If it makes no sense, or nothing of
// that name is registered, nothing changes, and the error says what to do
// about it.
func (p *Panel) Set(ctx context.Context, o Override) error {
	if err := o.check(p.MaxFor); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.unlock()
	if err := p.checkTarget(o.Target); err != nil {
		return err
	}
	a := &active{Override: o}
	if o.What == Spec {
		spec, err := readChange(o.Name, o.To)
		if err != nil {
			return err
		}
		a.spec = spec
		for _, t := range p.targets {
			if t.base != nil && t.name == o.Name {
				if err := spec.loosens(*t.base); err != nil {
					return err
				}
			}
		}
	}
	p.begin(ctx, a)
	return nil
}

// begin puts an override in force.
func (p *Panel) begin(ctx context.Context, a *active) {
	a.For = limits.Cap(cmp.Or(a.For, defaultFor), p.MaxFor)
	a.Since, a.Until = time.Now(), time.Time{}
	kind, before := ChangeSet, p.overrides[a.Target]
	if before != nil {
		kind = ChangeReplaced
		before.stop()
	}
	if p.overrides == nil {
		p.overrides = make(map[Target]*active)
	}
	p.overrides[a.Target] = a
	if a.For > 0 {
		a.Until = a.Since.Add(a.For)
		a.timer = time.AfterFunc(min(a.For, maxSleep), func() { p.expire(a) })
	}
	p.changed(ctx, Change{Kind: kind, Override: a.Override, Who: a.Who, Why: a.Why})
}

// stop ends the timer.
func (a *active) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// maxSleep is how often the end of an override is compared with the clock.
// Timers stand still while the machine is suspended.
const maxSleep = time.Minute

// left returns how long the override holds: by the monotonic clock or by the time
// of day, whichever ends first.
func (a *active) left(now time.Time) time.Duration {
	return min(a.Until.Sub(now), a.Until.Round(0).Sub(now.Round(0)))
}

// expire ends an override that has expired, unless it was replaced.
func (p *Panel) expire(a *active) {
	p.mu.Lock()
	defer p.unlock()
	if p.overrides[a.Target] != a {
		return
	}
	if left := a.left(time.Now()); left > 0 {
		a.timer.Reset(min(left, maxSleep))
		return
	}
	delete(p.overrides, a.Target)
	p.changed(context.Background(), Change{Kind: ChangeExpired, Override: a.Override, Who: a.Who, Why: a.Why})
}

// Clear ends an override before its time. It is an error if there is none.
func (p *Panel) Clear(ctx context.Context, t Target, who, why string) error {
	if err := checkPerson(who, why); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.unlock()
	a := p.overrides[t]
	if a == nil {
		return problem("name", "has no override to clear: "+quote(t.String()))
	}
	a.stop()
	delete(p.overrides, t)
	p.changed(ctx, Change{Kind: ChangeCleared, Override: a.Override, Who: who, Why: why})
	return nil
}

// changed applies what is in force now, and calls the Observer.
func (p *Panel) changed(ctx context.Context, c Change) {
	for _, t := range p.targets {
		if slices.Contains(t.what, c.Override.What) && (c.Override.Name == All || c.Override.Name == t.name) {
			t.apply(p)
		}
	}
	if p.Observer != nil {
		ctx = context.WithoutCancel(ctx)
		// A panic of it is treated like one of the Observer of a policy: it is reported
		// on standard error, and ends nothing.
		var tell backoff.Observer = func(ctx context.Context, _ backoff.Event) { p.Observer(ctx, c) }
		p.notifications.Lock()
		p.notifications.Add(func() { tell.Notify(ctx, backoff.Event{}) })
		p.notifications.Mutex.Unlock() // runs nothing yet
	}
}

// Overrides returns those in force, sorted by what and whose.
func (p *Panel) Overrides() []Override {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Override
	for _, t := range slices.SortedFunc(maps.Keys(p.overrides), compareTargets) {
		all = append(all, p.overrides[t].Override)
	}
	return all
}

// Targets returns what can be overridden by name, sorted: what was registered
// under a name, and the keys of every Services.
func (p *Panel) Targets() []Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named()
}

// named is Targets, under the lock.
func (p *Panel) named() []Target {
	all := make(map[Target]bool)
	for _, t := range p.targets {
		if t.name == "" {
			continue
		}
		for _, what := range t.what {
			for _, key := range append(t.keys(), "") {
				all[Target{what, t.name, key}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), compareTargets)
}

// compareTargets is the order in which targets are shown.
func compareTargets(a, b Target) int {
	return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key))
}

// checkTarget returns an error that lists the names, or the keys, that are
// known, if the one of t is not.
func (p *Panel) checkTarget(t Target) error {
	if t.Name == All && t.What != Spec || slices.ContainsFunc(p.targets, t.isOf) {
		return nil
	}
	var names, keys []string
	for _, known := range p.named() {
		switch {
		case known.What == t.What && known.Key == "":
			names = append(names, known.Name)
		case known.What == t.What && known.Name == t.Name:
			keys = append(keys, known.Key)
		}
	}
	if t.Key != "" && slices.Contains(names, t.Name) {
		return problem("key", "is "+quote(t.Key)+list(keys)+"; a key is known once there was a call under it")
	}
	return problem("name", "is "+quote(t.Name)+list(names)+"; what is not registered with the panel cannot be overridden")
}

// isOf reports whether t is registered as known, or as one of its keys.
func (t Target) isOf(known target) bool {
	return t.Name != "" && t.Name == known.name && slices.Contains(known.what, t.What) && (t.Key == "" || slices.Contains(known.keys(), t.Key))
}

// list says which names, or keys, there are, for an error. An untrusted client may
// have chosen keys: they are quoted unless they are plain.
func list(names []string) string {
	const most = 20
	if len(names) == 0 {
		return ", and none is known"
	}
	var shown []string
	for _, name := range names[:min(len(names), most)] {
		if quoted := quote(name); quoted != `"`+name+`"` {
			name = quoted
		}
		shown = append(shown, name)
	}
	text := ", want one of " + strings.Join(shown, ", ")
	if more := len(names) - most; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}
