package backofftest_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest"
)

// The second attempt of upload sends nothing, because the first one has read the body.
func ExampleForced() {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	upload := func(ctx context.Context, body *bytes.Buffer) error {
		return backoff.Policy{}.Do(ctx, func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, body)
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return backoffhttp.Check(resp)
		})
	}

	testUpload := func(t testing.TB) {
		forced := backofftest.Force(t)
		forced.Run(func(ctx context.Context) error {
			return upload(ctx, bytes.NewBufferString("hello"))
		})
	}
	runs(testUpload)
	// Output: example_force_test.go:22: body: attempt 2 sends another one than the first: 0 bytes, not 5
}

// runs runs a test, and prints how it fails.
func runs(test func(testing.TB)) {
	t := new(printing)
	defer func() {
		for _, end := range t.cleanups {
			end()
		}
	}()
	test(t)
}

// printing is a test that prints its errors.
type printing struct {
	testing.TB

	cleanups []func()
}

func (p *printing) Helper()                  {}
func (p *printing) Setenv(_, _ string)       {}
func (p *printing) Context() context.Context { return context.Background() }
func (p *printing) Cleanup(f func())         { p.cleanups = append(p.cleanups, f) }
func (p *printing) Error(args ...any)        { fmt.Println(filepath.Base(fmt.Sprint(args...))) }
