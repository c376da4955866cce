package clock

import (
	"sync"
	"time"
)

// A Sleeper sets an Alarm.
type Sleeper interface {
	// Ring is called on a goroutine of its own when the alarm goes off, also if
	// it is being stopped at that moment.
	Ring(*Alarm)
}

// An Alarm calls its Sleeper once, unless it is stopped before. The zero Alarm
// never goes off.
type Alarm struct {
	sleeper Sleeper
	timer   *time.Timer
	reuse   bool
}

// alarms are reused if they did not go off.
var alarms sync.Pool

// NewAlarm returns an alarm that goes off after d. It takes a used one, and may
// be used again, if reuse is true, which is right only where [Monotonic] is.
func NewAlarm(d time.Duration, sleeper Sleeper, reuse bool) *Alarm {
	if reuse {
		if a, ok := alarms.Get().(*Alarm); ok {
			a.sleeper = sleeper
			a.timer.Reset(d)
			return a
		}
	}
	a := &Alarm{sleeper: sleeper, reuse: reuse}
	a.timer = time.AfterFunc(d, a.ring)
	return a
}

func (a *Alarm) ring() { a.sleeper.Ring(a) }

// Stop stops the alarm. It may race with Ring, which must then ignore the alarm:
// one that has begun to ring is not used again.
func (a *Alarm) Stop() {
	if a.timer != nil && a.timer.Stop() && a.reuse {
		a.sleeper = nil
		alarms.Put(a)
	}
}
