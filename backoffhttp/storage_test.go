package backoffhttp_test

// The operations of Cloud Storage, and its conformance tests for client
// libraries. Source: googleapis/conformance-tests, storage/v1; google-cloud-go,
// storage/internal/test/conformance.

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/presets"
)

// An operation is a request of Cloud Storage's JSON API, and how it is made
// conditional.
type operation struct {
	name, method, path string
	query, tag, body   string // preconditions: a parameter, If-Match, the body
}

const bucket, object, project = "/storage/v1/b/bucket", "/storage/v1/b/bucket/o/a%2Fb.txt", "/storage/v1/projects/p"

var alwaysIdempotent = []operation{
	{name: "bucket_acl.get", method: "GET", path: bucket + "/acl/allUsers"},
	{name: "bucket_acl.list", method: "GET", path: bucket + "/acl"},
	{name: "buckets.delete", method: "DELETE", path: bucket},
	{name: "buckets.get", method: "GET", path: bucket},
	{name: "buckets.getIamPolicy", method: "GET", path: bucket + "/iam"},
	{name: "buckets.insert", method: "POST", path: "/storage/v1/b?project=p"},
	{name: "buckets.list", method: "GET", path: "/storage/v1/b?project=p"},
	{name: "buckets.lockRetentionPolicy", method: "POST", path: bucket + "/lockRetentionPolicy?ifMetagenerationMatch=1"},
	{name: "buckets.testIamPermissions", method: "GET", path: bucket + "/iam/testPermissions"},
	{name: "default_object_acl.get", method: "GET", path: bucket + "/defaultObjectAcl/allUsers"},
	{name: "default_object_acl.list", method: "GET", path: bucket + "/defaultObjectAcl"},
	{name: "hmacKey.delete", method: "DELETE", path: project + "/hmacKeys/id"},
	{name: "hmacKey.get", method: "GET", path: project + "/hmacKeys/id"},
	{name: "hmacKey.list", method: "GET", path: project + "/hmacKeys"},
	{name: "notifications.delete", method: "DELETE", path: bucket + "/notificationConfigs/1"},
	{name: "notifications.get", method: "GET", path: bucket + "/notificationConfigs/1"},
	{name: "notifications.list", method: "GET", path: bucket + "/notificationConfigs"},
	{name: "object_acl.get", method: "GET", path: object + "/acl/allUsers"},
	{name: "object_acl.list", method: "GET", path: object + "/acl"},
	{name: "objects.get", method: "GET", path: object + "?alt=media"},
	{name: "objects.list", method: "GET", path: bucket + "/o?prefix=a"},
	{name: "serviceaccount.get", method: "GET", path: project + "/serviceAccount"},
}

var conditionallyIdempotent = []operation{
	{name: "buckets.patch", method: "PATCH", path: bucket, query: "ifMetagenerationMatch=1"},
	{name: "buckets.setIamPolicy", method: "PUT", path: bucket + "/iam", body: `{"etag":"CAE="}`},
	{name: "buckets.update", method: "PUT", path: bucket, query: "ifMetagenerationMatch=1"},
	{name: "hmacKey.update", method: "PUT", path: project + "/hmacKeys/id", body: `{"state":"INACTIVE","etag":"CAE="}`},
	{name: "objects.compose", method: "POST", path: object + "/compose", query: "ifGenerationMatch=0"},
	{name: "objects.copy", method: "POST", path: object + "/copyTo/b/other/o/c%2Fd", query: "ifGenerationMatch=0"},
	{name: "objects.delete", method: "DELETE", path: object, query: "ifGenerationMatch=7"},
	{name: "objects.insert", method: "POST", path: "/upload" + bucket + "/o?uploadType=media&name=x", query: "ifGenerationMatch=0"},
	{name: "objects.patch", method: "PATCH", path: object, tag: `"etag"`},
	{name: "objects.rewrite", method: "POST", path: object + "/rewriteTo/b/other/o/c", query: "ifGenerationMatch=0"},
	{name: "objects.update", method: "PUT", path: object, query: "ifMetagenerationMatch=1"},
}

var neverIdempotent = []operation{
	{name: "bucket_acl.delete", method: "DELETE", path: bucket + "/acl/allUsers"},
	{name: "bucket_acl.insert", method: "POST", path: bucket + "/acl"},
	{name: "bucket_acl.patch", method: "PATCH", path: bucket + "/acl/allUsers"},
	{name: "bucket_acl.update", method: "PUT", path: bucket + "/acl/allUsers"},
	{name: "default_object_acl.delete", method: "DELETE", path: bucket + "/defaultObjectAcl/allUsers"},
	{name: "default_object_acl.insert", method: "POST", path: bucket + "/defaultObjectAcl"},
	{name: "default_object_acl.patch", method: "PATCH", path: bucket + "/defaultObjectAcl/allUsers"},
	{name: "default_object_acl.update", method: "PUT", path: bucket + "/defaultObjectAcl/allUsers"},
	{name: "hmacKey.create", method: "POST", path: project + "/hmacKeys"},
	{name: "notifications.insert", method: "POST", path: bucket + "/notificationConfigs"},
	{name: "object_acl.delete", method: "DELETE", path: object + "/acl/allUsers"},
	{name: "object_acl.insert", method: "POST", path: object + "/acl"},
	{name: "object_acl.patch", method: "PATCH", path: object + "/acl/allUsers"},
	{name: "object_acl.update", method: "PUT", path: object + "/acl/allUsers"},
}

// request makes the operation's request, with its precondition or without.
func (o operation) request(t testing.TB, preconditioned bool) *http.Request {
	url := "https://storage.googleapis.com" + o.path
	body := "{}"
	if preconditioned && o.query != "" {
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		url += separator + o.query
	}
	if preconditioned && o.body != "" {
		body = o.body
	}
	var content io.Reader
	if o.method == "POST" || o.method == "PUT" || o.method == "PATCH" {
		content = strings.NewReader(body)
	}
	req := newRequest(t, o.method, url, content)
	if preconditioned && o.tag != "" {
		req.Header.Set("If-Match", o.tag)
	}
	return req
}

func storageTable(t testing.TB) *backoffhttp.Operations {
	table, err := backoffhttp.NewOperations(presets.CloudStorageOperations())
	require.NoError(t, err)
	return table
}

// storage is a Transport that knows the table.
func storage(t testing.TB, w http.RoundTripper) *backoffhttp.Unguarded {
	tr := over(w)
	tr.Policy.Classify = presets.CloudStorageStatus()
	tr.Idempotency = storageTable(t).Idempotency
	return tr
}

// instruction does what the emulator of Cloud Storage does on "return-...".
func instruction(name string) step {
	if name == "reset-connection" {
		return failure(syscall.ECONNRESET)
	}
	code, err := strconv.Atoi(name)
	if err != nil {
		panic(name)
	}
	return answer(code)
}

// A scenario is one of the conformance tests.
type scenario struct {
	cases          [][]string
	operations     []operation
	preconditioned bool
	success        bool
	requests       int
}

var transientTwice = [][]string{{"503", "503"}, {"reset-connection", "reset-connection"}, {"reset-connection", "503"}}

func scenarios() map[int]scenario {
	all := append(append(append([]operation{}, alwaysIdempotent...), conditionallyIdempotent...), neverIdempotent...)
	once := [][]string{{"503"}, {"reset-connection"}}
	return map[int]scenario{
		1: {transientTwice, alwaysIdempotent, false, true, 3},
		2: {transientTwice, conditionallyIdempotent, true, true, 3},
		3: {once, conditionallyIdempotent, false, false, 1},
		4: {once, neverIdempotent, false, false, 1},
		5: {[][]string{{"400"}, {"401"}}, all, false, false, 1},
		6: {[][]string{{"503", "400"}, {"reset-connection", "401"}}, all[:33], true, false, 2},
	}
}

// Scenarios 1 to 6.
func TestStorageConformanceScenarios1To6(t *testing.T) {
	require.Len(t, alwaysIdempotent, 22)
	require.Len(t, conditionallyIdempotent, 11)
	require.Len(t, neverIdempotent, 14)
	for id, s := range scenarios() {
		for _, o := range s.operations {
			for _, c := range s.cases {
				t.Run(fmt.Sprintf("%d/%s/%s", id, o.name, strings.Join(c, ",")), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { s.run(t, o, c) })
				})
			}
		}
	}
}

func (s scenario) run(t *testing.T, o operation, instructions []string) {
	var steps []step
	for _, name := range instructions {
		steps = append(steps, instruction(name))
	}
	w := newWire(append(steps, answer(200))...)
	resp, err := storage(t, w).RoundTrip(o.request(t, s.preconditioned))
	require.Equal(t, s.requests, w.requests())
	if err == nil {
		require.Equal(t, s.success, resp.StatusCode == 200)
		resp.Body.Close()
	} else {
		require.False(t, s.success)
	}
}

// A generation that is deleted twice is gone all the same. For other operations
// it names what they change, and is no precondition.
func TestStorageDeletesAGenerationAgainAndChangesNoneAgain(t *testing.T) {
	for _, o := range conditionallyIdempotent {
		o.query, o.tag, o.body = "generation=7", "", ""
		s := scenario{[][]string{{"503"}}, nil, true, false, 1}
		if o.name == "objects.delete" {
			s = scenario{transientTwice, nil, true, true, 3}
		}
		for _, c := range s.cases {
			synctest.Test(t, func(t *testing.T) { s.run(t, o, c) })
		}
	}
}

// cut breaks the connection after so many bytes of the body.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 {
		http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func TestOperationsAreMatchedByTheMostSpecificPattern(t *testing.T) {
	table, err := backoffhttp.NewOperations(map[string]string{
		"POST /charges":           "key",
		"POST /charges/{id}/void": "always",
		"POST /charges/{rest...}": "never",
		"PATCH /users/{id}":       "If-Match, If-None-Match, ?version, {etag}",
		"POST other.test/charges": "always",
	})
	require.NoError(t, err)
	for _, c := range []struct {
		method, url string
		want        backoff.Idempotency
	}{
		{"POST", "http://a.test/charges", backoff.Keyed},
		{"POST", "http://other.test/charges", backoff.Idempotent},
		{"POST", "http://a.test/charges/1/void", backoff.Idempotent},
		{"POST", "http://a.test/charges/1/refund", backoff.NonIdempotent},
		{"GET", "http://a.test/unlisted", backoff.Idempotent},
		{"POST", "http://a.test/unlisted", backoff.NonIdempotent},
	} {
		require.Equal(t, c.want, table.Idempotency(newRequest(t, c.method, c.url, nil)), "%s %s", c.method, c.url)
	}
	keyed := newRequest(t, "POST", "http://a.test/charges/1/refund", nil)
	keyed.Header.Set("Idempotency-Key", "mine")
	require.Equal(t, backoff.Idempotent, table.Idempotency(keyed))
	require.Equal(t, backoff.NonIdempotent, table.Idempotency(&http.Request{Method: "POST", Header: http.Header{}, URL: keyed.URL, Host: "::"}))
}

func TestConditionsAreLookedForWhenTheyAreNeeded(t *testing.T) {
	table, err := backoffhttp.NewOperations(map[string]string{"PATCH /users/{id}": "If-Match, If-None-Match, ?version, {etag}"})
	require.NoError(t, err)
	for _, c := range []struct {
		query, header, value, body string
		want                       bool
	}{
		{},
		{query: "?version=3", want: true},
		{query: "?version="},
		{header: "If-Match", value: `"v"`, want: true},
		{header: "If-Match", value: `*`},
		{header: "If-None-Match", value: `*`, want: true},
		{header: "If-None-Match", value: `"v"`},
		{body: `{"name":"x","etag":"v"}`, want: true},
		{body: `{"name":"x","etag":""}`},
		{body: `{"name":"x","etag":7}`},
		{body: `{"inner":{"etag":"v"}}`},
		{body: `[`},
	} {
		req := newRequest(t, "PATCH", "http://a.test/users/7"+c.query, strings.NewReader(c.body))
		if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		i := table.Idempotency(req)
		require.Equal(t, c.want, i.Repeatable(t.Context(), backoff.ClassRetryable), "%+v", c)
		require.True(t, i.Repeatable(t.Context(), backoff.ClassNotSent))
	}
	gone := newRequest(t, "PATCH", "http://a.test/users/7", stream(`{"etag":"v"}`))
	require.False(t, table.Idempotency(gone).Repeatable(t.Context(), backoff.ClassRetryable), "a body that can be read once is not read")
	gone.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }
	require.False(t, table.Idempotency(gone).Repeatable(t.Context(), backoff.ClassRetryable))
}

func TestATableThatCannotBeReadIsAnError(t *testing.T) {
	for pattern, rule := range map[string]string{
		"GET":            "always",
		"GET x":          "always",
		"GET /{x":        "always",
		"GET /a":         "",
		"GET /b":         "?",
		"GET /c":         "{}",
		"GET /d":         "{etag",
		"GET /e":         "two words",
		"GET /f":         "If-Match,",
		"GET /g/{a}/{a}": "always",
	} {
		_, err := backoffhttp.NewOperations(map[string]string{pattern: rule})
		require.ErrorContains(t, err, strconv.Quote(pattern), "%q: %q", pattern, rule)
	}
	_, err := backoffhttp.NewOperations(map[string]string{"GET /{a}/x": "always", "GET /x/{a}": "never"})
	require.ErrorContains(t, err, "conflicts")
}
