package presets

import (
	_ "embed"
	"strings"
)

//go:embed cloudstorage.txt
var cloudStorage string

// CloudStorageOperations is the table of the operations of Cloud Storage's
// JSON API, which says whether each may be sent again. It is for backoffhttp's
// NewOperations. 22 operations may always be sent again, 11 under a
// precondition, 14 never. The method alone would be wrong for 13 of them.
//
// Keys are method and path. Values are "always", "never", or the preconditions
// one of which must be there: a parameter of the query, a header, or a member
// of the JSON body. Every call returns a new map, which may be changed, for
// example for another version of the API.
//
// Source: Cloud Storage, "Retry strategy", "Idempotency of operations"; its
// conformance tests for client libraries, scenarios 1 to 4. Where older clients
// differ, this follows the page and the tests: in C++ the deletion of a bucket
// was conditional, in Java the update of an HMAC key was never repeated.
func CloudStorageOperations() map[string]string {
	table := make(map[string]string)
	for line := range strings.Lines(cloudStorage) {
		if operation, rule, ok := strings.Cut(line, " = "); ok {
			table[strings.TrimSpace(operation)] = strings.TrimSpace(rule)
		}
	}
	return table
}
