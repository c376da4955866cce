package backoff

import "sync"

// LockOf is what a breaker must not take while calls succeed.
func LockOf(b *Breaker) *sync.Mutex { return &b.mu }

// HasNews reports whether a breaker ever had anything to tell.
func HasNews(b *Breaker) bool { return b.news != nil }

// ReportPanic is what a program sees of the first panic of an observer.
var ReportPanic = reportPanic
