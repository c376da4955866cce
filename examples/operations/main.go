// Command operations declares which operations of a service may be repeated.
// Watch the two columns: a server fails once, and the request is sent again or
// not, as its method alone says, or as a table of operations says.
//
// The table is that of Cloud Storage, where the method alone would be wrong for
// 13 of 47 operations.
//
//	go run -C examples ./operations
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/presets"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// requests are some operations of each kind.
var requests = []struct{ operation, method, path, body string }{
	{"objects.get", "GET", "/storage/v1/b/photos/o/cat.jpg", ""},
	{"buckets.insert", "POST", "/storage/v1/b?project=p", "{}"},
	{"objects.insert", "POST", "/upload/storage/v1/b/photos/o?name=cat.jpg", "{}"},
	{"objects.insert, if new", "POST", "/upload/storage/v1/b/photos/o?name=cat.jpg&ifGenerationMatch=0", "{}"},
	{"objects.delete", "DELETE", "/storage/v1/b/photos/o/cat.jpg", ""},
	{"objects.delete, that version", "DELETE", "/storage/v1/b/photos/o/cat.jpg?generation=7", ""},
	{"buckets.setIamPolicy", "PUT", "/storage/v1/b/photos/iam", "{}"},
	{"buckets.setIamPolicy, with etag", "PUT", "/storage/v1/b/photos/iam", `{"etag":"CAE="}`},
	{"object_acl.delete", "DELETE", "/storage/v1/b/photos/o/cat.jpg/acl/allUsers", ""},
	{"notifications.insert", "POST", "/storage/v1/b/photos/notificationConfigs", "{}"},
}

func run(ctx context.Context, out io.Writer) error {
	byMethod := &backoffhttp.Transport{Policy: policy(), Unguarded: true}
	byTable, err := newTransport()
	if err != nil {
		return err
	}
	wrong := 0
	fmt.Fprintf(out, "%-37s%-12s%s\n", "request and operation", "by method", "by table")
	for _, r := range requests {
		var sent [2]int
		for i, t := range []*backoffhttp.Transport{byMethod, byTable} {
			if sent[i], err = send(ctx, t, r.method, r.path, r.body); err != nil {
				return err
			}
		}
		note := ""
		if sent[0] != sent[1] {
			wrong, note = wrong+1, "  the method alone is wrong"
		}
		fmt.Fprintf(out, "%-37s%-12s%s%s\n", r.method+" "+r.operation, times(sent[0]), times(sent[1]), note)
	}
	fmt.Fprintf(out, "\nThe method alone is wrong for %d of these %d operations.\n", wrong, len(requests))
	return nil
}

// newTransport is all that a program needs: the table, and the classifier of
// the service.
func newTransport() (*backoffhttp.Transport, error) {
	operations, err := backoffhttp.NewOperations(presets.CloudStorageOperations())
	if err != nil {
		return nil, err
	}
	p := policy()
	p.Classify = presets.CloudStorageStatus()
	return &backoffhttp.Transport{Policy: p, Idempotency: operations.Idempotency, Unguarded: true}, nil
}

func policy() backoff.Policy {
	return backoff.Policy{Name: "storage", Schedule: backoff.Constant(time.Millisecond)}
}

// send makes a request to a server that fails the first time, and returns how
// often the request was sent.
func send(ctx context.Context, t *backoffhttp.Transport, method, path, body string) (int, error) {
	server, err := faulty.Start(faulty.Status(503), faulty.Status(200))
	if err != nil {
		return 0, err
	}
	defer server.Close()
	req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return 0, err
	}
	return server.Requests(), resp.Body.Close()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return "again"
}
