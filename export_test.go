package backoff

import "sync"

// LockOf is what a breaker must not take while calls succeed.
func LockOf(b *Breaker) *sync.Mutex { return &b.mu }

// ForgetPanics has the next panic of an observer reported as the first.
func ForgetPanics() { panicked = sync.Once{} }

// ReportPanic is what a program sees of the first panic of an observer.
var ReportPanic = reportPanic
