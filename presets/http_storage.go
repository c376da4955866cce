package presets

import "maps"

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
	table := storageBuckets()
	maps.Copy(table, storageObjects())
	maps.Copy(table, storageProjects())
	for _, acl := range []string{storageBucket + "/acl", storageBucket + "/defaultObjectAcl", storageObject + "/acl"} {
		table["GET "+acl] = "always"
		table["POST "+acl] = "never"
		table["GET "+acl+"/{entity}"] = "always"
		table["PUT "+acl+"/{entity}"] = "never"
		table["PATCH "+acl+"/{entity}"] = "never"
		table["DELETE "+acl+"/{entity}"] = "never"
	}
	return table
}

// The paths of Cloud Storage.
const (
	storageBucket = "/storage/v1/b/{bucket}"
	storageObject = storageBucket + "/o/{object}"
)

// The preconditions of Cloud Storage.
const (
	metagenerationMatch = "?ifMetagenerationMatch, If-Match"
	etagMatch           = "If-Match, {etag}"
	generationMatch     = "?ifGenerationMatch"
)

// storageBuckets returns the operations on buckets.
func storageBuckets() map[string]string {
	const bucket = storageBucket
	return map[string]string{
		"GET /storage/v1/b":                              "always", // buckets.list
		"POST /storage/v1/b":                             "always", // buckets.insert: the name is taken the second time
		"GET " + bucket:                                  "always",
		"DELETE " + bucket:                               "always",
		"PATCH " + bucket:                                metagenerationMatch,
		"PUT " + bucket:                                  metagenerationMatch,
		"POST " + bucket + "/lockRetentionPolicy":        "always",
		"GET " + bucket + "/iam":                         "always",
		"PUT " + bucket + "/iam":                         etagMatch,
		"GET " + bucket + "/iam/testPermissions":         "always",
		"GET " + bucket + "/notificationConfigs":         "always",
		"POST " + bucket + "/notificationConfigs":        "never", // makes another one each time
		"GET " + bucket + "/notificationConfigs/{id}":    "always",
		"DELETE " + bucket + "/notificationConfigs/{id}": "always",
	}
}

// storageObjects returns the operations on objects.
func storageObjects() map[string]string {
	const (
		bucket = storageBucket
		object = storageObject
		target = "/b/{targetBucket}/o/{targetObject}"
	)
	return map[string]string{
		"GET " + bucket + "/o":                   "always",
		"POST " + bucket + "/o":                  generationMatch, // objects.insert without content
		"POST /upload" + bucket + "/o":           generationMatch, // objects.insert
		"GET " + object:                          "always",
		"DELETE " + object:                       generationMatch + ", ?generation",
		"PATCH " + object:                        metagenerationMatch,
		"PUT " + object:                          metagenerationMatch,
		"POST " + object + "/compose":            generationMatch,
		"POST " + object + "/copyTo" + target:    generationMatch,
		"POST " + object + "/rewriteTo" + target: generationMatch,
	}
}

// storageProjects returns the operations on HMAC keys and service accounts.
func storageProjects() map[string]string {
	const hmac = "/storage/v1/projects/{project}/hmacKeys"
	return map[string]string{
		"GET " + hmac:                                       "always",
		"POST " + hmac:                                      "never", // makes another one each time
		"GET " + hmac + "/{accessId}":                       "always",
		"DELETE " + hmac + "/{accessId}":                    "always",
		"PUT " + hmac + "/{accessId}":                       etagMatch,
		"GET /storage/v1/projects/{project}/serviceAccount": "always",
	}
}
