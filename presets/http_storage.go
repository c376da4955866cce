package presets

// CloudStorageOperations is the table of the operations of Cloud Storage's JSON API,
// and whether each may be sent again, for backoffhttp's NewOperations: 22 always, 11
// under a precondition, 14 never. The method alone would be wrong for 13 of them.
//
// Keys are method and path; values are "always", "never", or the preconditions of which
// one must be there: a parameter of the query, a header, or a member of the JSON body.
// Every call makes a new map, to be changed at will, say for another version of the
// API.
//
// Source: Cloud Storage, "Retry strategy", "Idempotency of operations"; its conformance
// tests for client libraries, scenarios 1 to 4. Where older clients differ (a bucket's
// deletion was conditional in C++, the update of an HMAC key never repeated in Java),
// this follows these.
func CloudStorageOperations() map[string]string {
	const (
		bucket = "/storage/v1/b/{bucket}"
		object = bucket + "/o/{object}"
		target = "/b/{targetBucket}/o/{targetObject}"
		hmac   = "/storage/v1/projects/{project}/hmacKeys"

		metageneration = "?ifMetagenerationMatch, If-Match"
		etag           = "If-Match, {etag}"
		generation     = "?ifGenerationMatch"
	)
	table := map[string]string{
		"GET /storage/v1/b":                                 "always", // buckets.list
		"POST /storage/v1/b":                                "always", // buckets.insert: the name is taken the second time
		"GET " + bucket:                                     "always",
		"DELETE " + bucket:                                  "always",
		"PATCH " + bucket:                                   metageneration,
		"PUT " + bucket:                                     metageneration,
		"POST " + bucket + "/lockRetentionPolicy":           "always",
		"GET " + bucket + "/iam":                            "always",
		"PUT " + bucket + "/iam":                            etag,
		"GET " + bucket + "/iam/testPermissions":            "always",
		"GET " + bucket + "/notificationConfigs":            "always",
		"POST " + bucket + "/notificationConfigs":           "never", // makes another one, each time
		"GET " + bucket + "/notificationConfigs/{id}":       "always",
		"DELETE " + bucket + "/notificationConfigs/{id}":    "always",
		"GET " + bucket + "/o":                              "always",
		"POST " + bucket + "/o":                             generation, // objects.insert without content
		"POST /upload" + bucket + "/o":                      generation, // objects.insert
		"GET " + object:                                     "always",
		"DELETE " + object:                                  generation + ", ?generation",
		"PATCH " + object:                                   metageneration,
		"PUT " + object:                                     metageneration,
		"POST " + object + "/compose":                       generation,
		"POST " + object + "/copyTo" + target:               generation,
		"POST " + object + "/rewriteTo" + target:            generation,
		"GET " + hmac:                                       "always",
		"POST " + hmac:                                      "never", // makes another one, each time
		"GET " + hmac + "/{accessId}":                       "always",
		"DELETE " + hmac + "/{accessId}":                    "always",
		"PUT " + hmac + "/{accessId}":                       etag,
		"GET /storage/v1/projects/{project}/serviceAccount": "always",
	}
	for _, acl := range []string{bucket + "/acl", bucket + "/defaultObjectAcl", object + "/acl"} {
		table["GET "+acl] = "always"
		table["POST "+acl] = "never"
		table["GET "+acl+"/{entity}"] = "always"
		table["PUT "+acl+"/{entity}"] = "never"
		table["PATCH "+acl+"/{entity}"] = "never"
		table["DELETE "+acl+"/{entity}"] = "never"
	}
	return table
}
