// Package results has the ways in which an attempt can end, for tests of budgets.
package results

import "github.com/gobackoff/backoff"

// ByName has a Result for each text that Result.String returns.
var ByName = map[string]backoff.Result{
	"success":   {},
	"permanent": {Failed: true, Class: backoff.ClassPermanent},
	"failed":    {Failed: true},
	"throttled": {Failed: true, Class: backoff.ClassThrottled},
	"timeout":   {Failed: true, TimedOut: true},
	"canceled":  {Failed: true, Canceled: true},
	"not sent":  {NotSent: true},
}

// Names has the keys of ByName, in an order of its own.
var Names = []string{"success", "permanent", "failed", "throttled", "timeout", "canceled", "not sent"}
