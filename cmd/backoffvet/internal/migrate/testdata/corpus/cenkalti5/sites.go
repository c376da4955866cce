// Package cenkalti5 has calls of cenkalti/backoff v5 as programs make them.
package cenkalti5

import "corpus/world"

// Sites are the call sites by their names.
var Sites = map[string]world.Site{
	"defaults": defaults, "tries": tries, "constant": constant, "exponential": exponential, "literal": literal,
	"configured": configured, "noLimit": noLimit, "throttled": throttled, "notified": notified, "nested": nested,
	"spread": spread,
}
