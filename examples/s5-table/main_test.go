package main

import (
	"bytes"
	"testing"
)

const want = `operation                            by method  by table
GET objects.get                      again      again
POST buckets.insert                  once       again
POST objects.insert                  once       once
POST objects.insert, if new          again      again
DELETE objects.delete                again      once
DELETE objects.delete, that version  again      again
PUT buckets.setIamPolicy             again      once
PUT buckets.setIamPolicy, with etag  again      again
DELETE object_acl.delete             again      once
POST notifications.insert            once       once
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
