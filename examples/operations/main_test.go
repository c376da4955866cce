package main

import (
	"bytes"
	"testing"
)

const want = `request and operation                by method   by table
GET objects.get                      again       again
POST buckets.insert                  once        again  the method alone is wrong
POST objects.insert                  once        once
POST objects.insert, if new          again       again
DELETE objects.delete                again       once  the method alone is wrong
DELETE objects.delete, that version  again       again
PUT buckets.setIamPolicy             again       once  the method alone is wrong
PUT buckets.setIamPolicy, with etag  again       again
DELETE object_acl.delete             again       once  the method alone is wrong
POST notifications.insert            once        once

The method alone is wrong for 4 of these 10 operations.
`

func TestTheTableIsObeyed(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
