// Package cenkalti4 has calls of cenkalti/backoff v4 as programs make them.
package cenkalti4

import "corpus/world"

// Sites are the call sites by their names.
var Sites = map[string]world.Site{
	"save": save, "saveWithin": saveWithin, "upload": upload, "atMostFive": atMostFive, "fetch": fetch,
	"methodValue": methodValue, "method": method, "inAGoroutine": inAGoroutine, "twoCalls": twoCalls, "unlimited": unlimited,
	"ready": ready, "constantInSteps": constantInSteps, "atOnce": atOnce, "never": never, "compared": compared,
	"inALoop": inALoop, "always": always,
	"notified": notified, "notifiedByAVariable": notifiedByAVariable, "notifiedByAResult": notifiedByAResult,
	"notifiedWithData": notifiedWithData,
	"elsewhere":        elsewhere, "marksElsewhere": marksElsewhere, "ticker": ticker, "ownLoop": ownLoop, "conditional": conditional,
}
