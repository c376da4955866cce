package backoff

// ReportPanic is what a program sees of the first panic of an observer.
var ReportPanic = reportPanic
